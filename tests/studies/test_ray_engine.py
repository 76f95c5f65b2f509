"""A study on a real Ray cluster of two nodes, of which one is killed in the middle."""

import threading
import time
from importlib.util import find_spec

import pytest
from test_runner import values

from unweave.studies.catalog import Study
from unweave.studies.claims import claimed
from unweave.studies.ray_engine import Needs, run_on_ray
from unweave.studies.runner import run_study
from unweave.studies.store import open_store
from unweave.training import plan
from unweave.types import UserError

pytestmark = [pytest.mark.slow,  # half a minute of a core to start a cluster and its workers
              pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install ray"),
              pytest.mark.filterwarnings("ignore")]  # Ray's own, of which there are many


def make(data, seeds):
    """Short runs."""
    return plan("vae", "dsprites", seeds=seeds, device="cpu", steps=2, batch_size=4, num_latents=3,
                architecture="conv64-small", precision="float32")


STUDY = Study("short", make, "Short runs.", seeds="0..2", metrics=("tc",))


@pytest.fixture(scope="module")
def cluster():
    import ray
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}
    found = Cluster(initialize_head=True, head_node_args=small)
    found.second = found.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    ray.init(address=found.address, log_to_driver=False, logging_level="error")
    yield found
    ray.shutdown()
    found.shutdown()


def test_a_node_is_lost_and_no_row(cluster, tmp_path):
    store = open_store(tmp_path / "s", create=True)

    def lose_a_node():
        while not store.files("curves"):  # a first run is about to be stored
            time.sleep(0.05)
        cluster.remove_node(cluster.second, allow_graceful=False)

    killer = threading.Thread(target=lose_a_node, daemon=True)
    killer.start()
    said = []
    outcome = run_on_ray(STUDY, STUDY.runs(), store, most_runs=1, details=False,
                         say=said.append)
    killer.join()
    assert (outcome.done, outcome.failed) == (3, {})
    assert len(said) == 3
    assert claimed(store) == {}
    local = open_store(tmp_path / "local", create=True)
    run_study(STUDY, STUDY.runs(), local, device="cpu", num_workers=1, details=False,
              say=lambda line: None)
    assert values(store) == values(local)
    again = run_on_ray(STUDY, STUDY.runs(), store)
    assert (again.done, again.skipped) == (0, 3)
    with pytest.raises(UserError, match=r"asks for 0.5 GPUs and the cluster has 0"):
        run_on_ray(STUDY, STUDY.runs(), store, needs=Needs(gpus=0.5))
