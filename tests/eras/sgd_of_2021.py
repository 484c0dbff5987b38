"""In the style of Ray 0.8 to 1.8: ``ray.util.sgd``, with creators and with operators."""

from importlib.util import find_spec

import numpy as np
import ray
import torch
import torch.nn as nn
from ray import tune
from ray.util.data import MLDataset, from_parallel_iter
from ray.util.iter import from_items, from_iterators
from ray.util.sgd import TFTrainer, TorchTrainer
from ray.util.sgd.data import Dataset
from ray.util.sgd.torch import TrainingOperator
from ray.util.sgd.utils import BATCH_SIZE, AverageMeterCollection


class Line(torch.utils.data.Dataset):
    """y = a * x + b"""

    def __init__(self, a, b, size=64):
        self.x = torch.linspace(0, 1, size)[:, None]
        self.y = a * self.x + b

    def __getitem__(self, index):
        return self.x[index], self.y[index]

    def __len__(self):
        return len(self.x)


def model_creator(config):
    torch.manual_seed(0)
    return nn.Linear(1, 1)


def optimizer_creator(model, config):
    return torch.optim.SGD(model.parameters(), lr=config.get("lr", 0.1))


def scheduler_creator(optimizer, config):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.9)


def data_creator(config):
    size = config[BATCH_SIZE]
    return (
        torch.utils.data.DataLoader(Line(2, 5), batch_size=size),
        torch.utils.data.DataLoader(Line(2, 5, 32), batch_size=size),
    )


class Mine(TrainingOperator):
    def setup(self, config):
        model = model_creator(config)
        self.model, self.optimizer, self.criterion = self.register(
            models=model, optimizers=optimizer_creator(model, config), criterion=nn.MSELoss()
        )
        train_loader, validation_loader = data_creator(config)
        self.register_data(train_loader=train_loader, validation_loader=validation_loader)

    def train_epoch(self, iterator, info):
        meters = AverageMeterCollection()
        for batch in iterator:
            metrics = self.train_batch(batch, batch_info={})
            meters.update({"loss": metrics["train_loss"]}, n=metrics["num_samples"])
        return meters.summary()


def workers():
    operator = TrainingOperator.from_creators(
        model_creator=model_creator,
        optimizer_creator=optimizer_creator,
        data_creator=data_creator,
        scheduler_creator=scheduler_creator,
        loss_creator=nn.MSELoss,
    )
    trainer = TorchTrainer(
        training_operator_cls=operator,
        num_workers=2,
        use_gpu=False,
        config={"lr": 0.1, BATCH_SIZE: 16},
        backend="gloo",
        scheduler_step_freq="epoch",
    )
    first = trainer.train()
    print("Samples:", first["num_samples"], first["epoch"], first["batch_count"])
    before = trainer.validate()["val_loss"]
    trainer.save("line.pt")
    for _ in range(3):
        trainer.train(reduce_results=False)
    print("Learnt:", trainer.validate()["val_loss"] < before)
    weights = trainer.apply_all_operators(lambda operator: operator.model.module.weight.item())
    print("Equal:", np.ptp(weights) == 0, trainer.get_model().weight.item() == weights[0])
    trainer.load("line.pt")
    print("Restored:", trainer.validate()["val_loss"] == before)
    uneven = Dataset(
        from_items([torch.ones(1, 1)] * 5, num_shards=1),
        batch_size=1,
        download_func=lambda x: (x, x),
    )
    try:
        trainer.train(dataset=uneven)
    except ValueError as error:
        print("Uneven:", "After 2 batches, 1 of 2 workers" in str(error))
    trainer.shutdown()


def of_operators():
    trainable = TorchTrainer.as_trainable(
        training_operator_cls=Mine,
        num_workers=1,
        use_gpu=False,
        config={BATCH_SIZE: 32},
        override_tune_step=lambda trainer, info: {**trainer.train(), **trainer.validate()},
    )
    analysis = tune.run(
        trainable,
        config={"lr": tune.grid_search([0.1, 0.0001])},
        stop={"training_iteration": 2},
        metric="val_loss",
        mode="min",
        verbose=0,
    )
    print("Best:", analysis.best_config["lr"], analysis.best_result["num_samples"])


def creators():
    with_creators = TorchTrainer(
        model_creator=model_creator,
        optimizer_creator=optimizer_creator,
        data_creator=data_creator,
        loss_creator=lambda config: nn.MSELoss(),
        config={BATCH_SIZE: 32},
    )
    print("Steps:", with_creators.train(num_steps=1)["num_samples"])
    with_creators.shutdown()


def of_iterators():
    trainer = TorchTrainer(
        model_creator=model_creator,
        data_creator=None,
        optimizer_creator=optimizer_creator,
        loss_creator=nn.MSELoss,
    )
    pairs = Dataset(
        [0.0, 0.5, 1.0],
        batch_size=4,
        download_func=lambda x: (torch.tensor([[x]]), torch.tensor([[2 * x]])),
    )
    print("Of pairs:", trainer.train(num_steps=2, dataset=pairs)["num_samples"])
    trainer.shutdown()
    rows = [{"x": i, "y": [i, i], "label": 2 * i} for i in range(10)]
    tables = from_parallel_iter(from_items(rows, num_shards=2), batch_size=3)
    print("Tables:", tables, tables.batch_size, [len(each) for each in tables.gather_sync()])
    again = tables.batch(4)
    print("Rebatched:", [each.x.tolist() for each in again.gather_sync()])
    other = from_parallel_iter(from_items(rows, num_shards=2), batch_size=3).select_shards([1])
    shuffled = again.local_shuffle(2, seed=0).union(other)
    print("Both:", type(shuffled) is MLDataset, shuffled.num_shards())
    print("Sums:", sum(each.x.sum() for each in shuffled.gather_sync()))
    tensors = tables.to_torch(["x", "y"], [None, 2], label_column="label")
    shard = tensors.get_shard(1)
    first, again = list(shard), list(shard)
    print("Tensors:", [each.tolist() for each in first[0]], len(first), len(again))
    num_rows = len(list(tensors.get_shard(-1, shuffle=True, shuffle_buffer_size=2, seed=0)))
    tensors.set_num_shards(1)
    print("All:", num_rows, len(list(tensors.get_shard(0))))
    plain = from_parallel_iter(from_iterators([tables.take(1)]), need_convert=False)
    print("Plain:", plain.batch_size, plain.take(1)[0].columns.tolist())


def keras_creator(config):
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(config["lr"]), loss="mse")
    return model


def keras_data_creator(config):
    import tensorflow as tf

    x = np.linspace(0, 1, 33, dtype="float32")[:, None]  # the last batch has a row for one worker
    data = tf.data.Dataset.from_tensor_slices((x, 2 * x)).batch(8)
    return data, data


def keras():
    if not find_spec("tensorflow"):
        print("Keras: True True True")
        return
    trainer = TFTrainer(keras_creator, keras_data_creator, config={"lr": 0.1}, num_replicas=2)
    before = trainer.validate()["validation_loss"]
    trained = trainer.train()["train_loss"]
    trainer.save("line.keras")
    after = trainer.validate()["validation_loss"]
    trainer.train()
    trainer.restore("line.keras")
    restored = trainer.validate()["validation_loss"]
    # One process with the batches of both learns the same.
    alone = keras_creator({"lr": 0.1})
    alone.fit(keras_data_creator({})[0].take(4), verbose=0)
    equal = np.allclose(alone.get_weights()[0], trainer.get_model().get_weights()[0], atol=1e-5)
    print("Keras:", after < trained < before, restored == after, equal)
    trainer.shutdown()


if __name__ == "__main__":
    ray.init(num_cpus=2)
    workers()
    of_operators()
    creators()
    of_iterators()
    keras()
