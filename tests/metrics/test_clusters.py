"""Scores of clusters against scikit-learn, brute force and worked numbers."""

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from unweave.metrics.clusters import KEYS, cluster_scores, contingency, matching
from unweave.types import UserError


@pytest.mark.parametrize(("num_clusters", "num_classes"), [(4, 4), (6, 3), (2, 5), (1, 3), (3, 1)])
def test_as_scikit_learn_and_as_every_matching(num_clusters, num_classes):
    rng = np.random.default_rng(num_clusters)
    classes = rng.integers(num_classes, size=200)
    clusters = np.where(rng.random(200) < 0.6, classes % num_clusters,
                        rng.integers(num_clusters, size=200))
    found = cluster_scores(clusters, classes)
    assert found["clusters.nmi"] == pytest.approx(normalized_mutual_info_score(classes, clusters))
    assert found["clusters.ari"] == pytest.approx(adjusted_rand_score(classes, clusters))
    size = max(num_clusters, num_classes)
    best = max(np.mean(np.array(order)[clusters] == classes)
               for order in permutations(range(size)))
    assert found["clusters.accuracy"] == pytest.approx(best)


def test_a_worked_number():
    """3 of 4 and 2 of 3 rows agree; NMI and ARI from the counts by hand."""
    found = cluster_scores(["b", "b", "b", "a", "a", "a", "b"], [0, 0, 0, 0, 1, 1, 1])
    assert found["clusters.accuracy"] == pytest.approx(5 / 7)
    both, left, right, whole = 3 + 0 + 0 + 1, 6 + 3, 6 + 3, 21
    expected = left * right / whole
    assert found["clusters.ari"] == pytest.approx((both - expected) / (9 - expected))


def test_names_do_not_matter_and_words_serve():
    classes = np.array(["cat", "dog", "cat", "eel"])
    assert set(cluster_scores([5, 2, 5, 9], classes).values()) == {1.0}
    table = contingency([5, 2, 5, 9], classes)
    assert matching(table) == {0: 1, 1: 0, 2: 2}
    assert set(cluster_scores([1, 1], [0, 0]).values()) == {1.0}
    assert set(KEYS) == set(cluster_scores([0], [0]))


def test_bad_rows_are_refused():
    for clusters, classes in (([0, 1], [0]), ([], []), ([[0]], [[0]])):
        with pytest.raises(UserError, match="one value for each of the same rows"):
            cluster_scores(np.array(clusters), np.array(classes))
