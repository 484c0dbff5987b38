"""In the style of Ray 1.5 to 2.4: data sets whose rows are plain values, in windows and epochs."""

import os

import numpy as np
import pandas as pd
import ray
from ray.data.dataset_pipeline import DatasetPipeline

ray.init(num_cpus=2)


def rows():
    numbers = ray.data.range(6)
    print("Twice:", numbers.map(lambda x: x * 2).take_all())
    print("Kept:", numbers.filter(lambda x: x > 3).take())
    words = ray.data.from_items(["a b", "c"]).flat_map(lambda text: text.split())
    print("Words:", list(words.iter_rows()))
    print("Totals:", numbers.sum(), numbers.min(), numbers.max(), numbers.mean(), numbers.count())
    print("To rows:", numbers.map(lambda x: {"a": x}).take(2))
    print("And back:", numbers.map(lambda x: {"a": x}).map(lambda row: row["a"]).take(2))
    print("Table:", ray.data.range_table(2).take(), ray.data.range_arrow(1).take())
    print(
        "Sorted:", ray.data.from_items([3, 1, 2]).sort().take(), numbers.sort(lambda x: -x).take(2)
    )
    print("Groups:", numbers.groupby(lambda x: x % 2).count().take())
    pairs = ray.data.from_items([(i % 2, i, i * i) for i in range(6)])
    print("By function:", pairs.sum(lambda x: x[2]), pairs.max([lambda x: x[1], lambda x: x[2]]))
    squares = pairs.groupby(lambda x: x[0]).sum(lambda x: x[2])
    print("Squares of groups:", sorted(squares.take()))
    print("Sums:", sorted(numbers.groupby(key=lambda x: x % 2).sum().take()))
    print("Pairs:", numbers.zip(numbers.map(lambda x: x * x)).take(3))
    print("Split:", [part.count() for part in numbers.split(2)])
    print("Executed:", numbers.fully_executed().count(), list(numbers.iter_rows(prefetch_blocks=1)))
    batches = numbers.iter_batches(prefetch_blocks=1, batch_size=4)
    print("Copied:", ray.data.Dataset.copy(dataset=numbers).count(), len(list(batches)))


def batches():
    numbers = ray.data.range(6)
    print("Lists:", list(numbers.iter_batches(batch_size=4)))
    print("Native:", list(numbers.iter_batches(batch_size=4, batch_format="native"))[1])
    print("More:", numbers.map_batches(lambda batch: [x + 1 for x in batch]).take())
    print("Array:", numbers.map_batches(lambda batch: batch + 1, batch_format="numpy").take(2))
    frames = numbers.map_batches(lambda frame: frame * 2, batch_format="pandas")
    print("Frame:", frames.take(2), list(numbers.to_pandas().columns))
    table = numbers.map(lambda x: {"a": x}).map_batches(
        lambda frame: frame.assign(b=frame["a"] * 2)
    )
    print("Columns:", table.take(2))
    arrays = ray.data.from_numpy(np.arange(4).reshape(2, 2)).map_batches(lambda batch: batch + 1)
    print(
        "Arrays:", [row.tolist() for row in arrays.take()], next(iter(arrays.iter_batches())).shape
    )


def files():
    with open("lines.txt", "w") as file:
        file.write("x\ny\n")
    print("Lines:", ray.data.read_text(os.path.abspath("lines.txt")).take())
    print("Bytes:", ray.data.read_binary_files(os.path.abspath("lines.txt")).take())
    image = np.arange(4).reshape(2, 2)
    pd.DataFrame({"image": [image.tobytes()]}).to_parquet("images.parquet")
    images = ray.data.read_parquet(
        os.path.abspath("images.parquet"), _tensor_column_schema={"image": (image.dtype, (2, 2))}
    )
    print("Of bytes:", [row["image"].tolist() for row in images.take()])


def pipelines():
    epochs = ray.data.range(3).repeat(2).map(lambda x: x + 1)
    print("Epochs:", list(epochs.iter_rows()), epochs.sum())
    windows = ray.data.range(4, parallelism=4).window(blocks_per_window=2)
    print("Windows:", [window.take() for window in windows.iter_datasets()])
    numbers = [lambda number=number: ray.data.range(number) for number in (1, 2)]
    made = DatasetPipeline.from_iterable(numbers)
    made.show_windows()
    print("Rewound:", [each.take() for each in made.rewindow(blocks_per_window=99).iter_datasets()])
    made.write_csv(os.path.abspath("numbers"))
    print("Written:", ray.data.read_csv(os.path.abspath("numbers")).count())
    print("Read:", made.stats(exclude_first_window=False).count("Window"), made.stats()[:9])
    shuffled = ray.data.range(4).repeat(2).random_shuffle_each_window()
    read = ray.remote(lambda part: [epoch.take_all() for epoch in part.iter_epochs()])
    first, second = ray.get([read.remote(part) for part in shuffled.split(2, equal=True)])
    print("Parts:", [sorted(ours + theirs) for ours, theirs in zip(first, second)])


def tensors():
    from importlib.util import find_spec

    table = ray.data.from_items([{"x": 1.0, "y": 2.0, "label": 3.0}])
    if find_spec("torch"):
        ((features, labels),) = table.to_torch(label_column="label")
        print("Torch:", features.tolist(), labels.tolist())
        (batch,) = ray.data.range(2).iter_torch_batches()
        print("Torch batch:", batch.tolist())
        epochs = table.repeat(2).to_torch(label_column="label")
        print("Torch epochs:", [label.item() for _, label in epochs])
    else:
        print("Torch: [[1.0, 2.0]] [[3.0]]\nTorch batch: [0, 1]\nTorch epochs: [3.0, 3.0]")
    if find_spec("tensorflow"):
        import tensorflow as tf

        signature = (tf.TensorSpec((None, 2)), tf.TensorSpec((None,)))
        ((features, labels),) = table.to_tf(output_signature=signature, label_column="label")
        print("TensorFlow:", features.numpy().tolist(), labels.numpy().tolist())
        epochs = table.repeat(2).to_tf(output_signature=signature, label_column="label")
        print("TensorFlow epochs:", [labels.numpy().tolist() for _, labels in epochs])
        numbers = ray.data.range(3).to_tf(
            output_signature=tf.TensorSpec((None, 1), tf.int64), batch_size=2
        )
        print("TensorFlow numbers:", [batch.numpy().tolist() for batch in numbers])
    else:
        print("TensorFlow: [[1.0, 2.0]] [3.0]\nTensorFlow epochs: [[3.0], [3.0]]")
        print("TensorFlow numbers: [[[0], [1]], [[2]]]")


if __name__ == "__main__":
    rows()
    batches()
    files()
    pipelines()
    tensors()
