"""Data sets beside training workers that hold all CPUs of the cluster."""

import raycompat as ray
from raycompat import data, train
from raycompat.train.data_parallel_trainer import DataParallelTrainer


def test_reads_do_not_wait_for_the_cpus_of_the_workers(cluster, tmp_path):
    num_workers = int(ray.cluster_resources()["CPU"])

    def learn():
        shard, whole = train.get_dataset_shard("split"), train.get_dataset_shard("whole")
        for _ in range(2):
            counts = [
                sum(len(batch["id"]) for batch in each.iter_batches(batch_size=4))
                for each in (shard, whole)
            ]
        train.report({"split": counts[0], "whole": counts[1]})

    rows = data.range(10 * num_workers, override_num_blocks=4)
    result = DataParallelTrainer(
        learn,
        scaling_config=train.ScalingConfig(num_workers=num_workers),
        run_config=train.RunConfig(storage_path=str(tmp_path)),
        datasets={"split": rows.map(lambda row: row).random_shuffle(), "whole": rows},
        dataset_config=train.DataConfig(datasets_to_split=["split"]),
    ).fit()
    assert result.metrics == {"split": 10, "whole": 10 * num_workers}
    assert data.range(3).map(lambda row: row).count() == 3  # with CPUs again


def test_tasks_take_a_cpu_unless_groups_hold_all(cluster):
    from raycompat.data import execution

    def shares():
        return execution._budget(data.DataContext.get_current()).shares_cpus

    class Next:
        def __call__(self, batch):
            return {"id": batch["id"] + 1}

    present = ray.cluster_resources()["CPU"]
    assert not shares()
    group = ray.util.placement_group([{"CPU": present}])
    ray.get(group.ready())
    assert shares()
    assert data.range(3).map_batches(Next, concurrency=1).sum("id") == 6
    ray.util.remove_placement_group(group)
    assert not shares()
