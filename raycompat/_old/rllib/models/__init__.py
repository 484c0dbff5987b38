"""Networks as classes, as RLlib has them since 2019: `TFModelV2`, `TorchModelV2`, and their parts."""
