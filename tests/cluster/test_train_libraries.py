"""Lightning and Transformers train among the workers of a run, with the real libraries."""

from __future__ import annotations

import os

import pytest

import raycompat as ray
from raycompat import train
from raycompat.train import Checkpoint, RunConfig, ScalingConfig
from raycompat.train.huggingface import transformers as ray_transformers
from raycompat.train.lightning import (
    RayDDPStrategy,
    RayLightningEnvironment,
    RayTrainReportCallback,
    prepare_trainer,
)
from raycompat.train.torch import TorchTrainer

torch = pytest.importorskip("torch")


def fit(function, folder, **options):
    """Train on two workers."""
    trainer = TorchTrainer(
        function,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=str(folder)),
        **options,
    )
    return trainer.fit()


@pytest.fixture
def cluster():
    ray.init(num_cpus=4)
    yield
    ray.shutdown()


def test_lightning_trains_among_the_workers_and_goes_on_from_a_checkpoint(cluster, tmp_path):
    pytest.importorskip("pytorch_lightning")

    def learn(config):
        import pytorch_lightning as lightning
        import torch

        class Line(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(1, 1)

            def training_step(self, batch, index):
                x, y = batch
                loss = ((self.layer(x) - y) ** 2).mean()
                self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
                return loss

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)

        trainer = lightning.Trainer(
            max_epochs=config["epochs"],
            strategy=RayDDPStrategy(),
            plugins=[RayLightningEnvironment()],
            callbacks=[RayTrainReportCallback()],
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        x = torch.arange(64.0).reshape(-1, 1) / 64
        samples = torch.utils.data.TensorDataset(x, 3 * x + 1)
        batches = torch.utils.data.DataLoader(samples, batch_size=8)
        path = None
        if (checkpoint := train.get_checkpoint()) is not None:
            path = os.path.join(checkpoint.path, RayTrainReportCallback.CHECKPOINT_NAME)
        prepare_trainer(trainer).fit(Line(), batches, ckpt_path=path)
        assert len(trainer.train_dataloader.sampler) == 32  # half of the samples

    first = fit(learn, tmp_path / "first", train_loop_config={"epochs": 3})
    assert os.listdir(first.checkpoint.path) == ["checkpoint.ckpt"]
    assert first.metrics_dataframe["epoch"].to_list() == [0, 1, 2]
    second = fit(
        learn,
        tmp_path / "second",
        train_loop_config={"epochs": 5},
        resume_from_checkpoint=Checkpoint(first.checkpoint.path),
    )
    assert second.metrics_dataframe["epoch"].to_list() == [3, 4]
    assert second.metrics["step"] == 5 * 4  # four batches of eight on each worker
    assert second.metrics["loss"] < first.metrics["loss"] < first.metrics_dataframe["loss"][0]


def test_a_trainer_of_lightning_that_would_train_alone_is_refused():
    lightning = pytest.importorskip("pytorch_lightning")
    alone = lightning.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    with pytest.raises(RuntimeError, match="Expected RayDDPStrategy"):
        prepare_trainer(alone)


@pytest.mark.parametrize("is_of_ray", [False, True])
def test_transformers_train_among_the_workers(is_of_ray, cluster, tmp_path):
    pytest.importorskip("transformers")

    def learn(config):
        import torch
        import transformers

        shape = {"vocab_size": 16, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
        of_text = {"bos_token_id": None, "eos_token_id": None}
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, **of_text))
        ids = torch.arange(8).repeat(32, 1)
        samples = [{"input_ids": each, "labels": each} for each in ids]
        if is_of_ray:
            shard = train.get_dataset_shard("train")
            samples = shard.iter_torch_batches(batch_size=4, dtypes=torch.long)
        arguments = transformers.TrainingArguments(
            str(tmp_path / "output"),
            max_steps=8,
            logging_steps=2,
            save_steps=4,
            eval_strategy="steps",
            eval_steps=4,
            per_device_train_batch_size=4,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(
            model, arguments, train_dataset=samples, eval_dataset=samples
        )
        trainer.add_callback(ray_transformers.RayTrainReportCallback())
        trainer = ray_transformers.prepare_trainer(trainer)
        trainer.train()
        assert trainer.args.world_size == 2

    rows = [{"input_ids": list(range(8)), "labels": list(range(8))} for _ in range(64)]
    datasets = {"train": ray.data.from_items(rows)} if is_of_ray else {}
    result = fit(learn, tmp_path / "run", train_loop_config={}, datasets=datasets)
    assert len(result.metrics_dataframe) == 2  # 8 steps, and one checkpoint for each 4
    assert result.metrics["eval_loss"] > 0
    assert "model.safetensors" in os.listdir(os.path.join(result.checkpoint.path, "checkpoint"))
