"""A sampled layer and boosted units for tables, without Keras."""

import numpy as np
import pytest
from scipy import special

from keras_swim.core.boost_units import Problem, choose_pair_units
from keras_swim.core.boosting import Boosting, CrossEntropy, SquaredError, boost
from keras_swim.core.grown_units import find_bins, grow_product_units
from keras_swim.core.left_out import ridge_left_out
from keras_swim.core.table_layer import fit_layer
from keras_swim.core.table_model import fit_table, merged_rows
from keras_swim.core.table_units import total_scores

QUICK = {"units": 100, "settings": Boosting(rounds=25)}


def table_of(x):
    return {f"x{number}": column for number, column in enumerate(x.T)}


@pytest.fixture(scope="module")
def conjunction():
    """Yes where two of five columns are large: what trees are made for."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(900, 5))
    return x, ((x[:, 0] > 0.5) & (x[:, 1] > 0.6)).astype(int)


@pytest.mark.parametrize("method", ["layer", "boost"])
def test_classes_with_probabilities(conjunction, method):
    x, y = conjunction
    model = fit_table(
        table_of(x[:600]), y[:600], classes=2, method=method, seed=0, **QUICK
    )
    chances = model.probabilities(table_of(x[600:]))
    assert np.mean(chances.argmax(axis=1) == y[600:]) > 0.93
    loss = -np.mean(np.log(chances[np.arange(300), y[600:]]))
    left_out = special.softmax(model.left_out, axis=1)
    expected = -np.mean(np.log(left_out[np.arange(600), y[:600]]))
    # Held-out scores say what to expect.
    assert abs(loss - expected) < 0.08


def test_boosting_sees_conjunctions_better_than_the_layer(conjunction):
    x, y = conjunction
    right = {}
    for method in ("layer", "boost"):
        model = fit_table(
            table_of(x[:600]), y[:600], classes=2, method=method, seed=1, units=100
        )
        found = model.probabilities(table_of(x[600:])).argmax(axis=1)
        right[method] = np.mean(found == y[600:])
    assert right["boost"] > right["layer"]


@pytest.mark.parametrize("method", ["layer", "boost"])
def test_several_real_targets_in_their_own_units(method):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(500, 3))
    y = np.stack([1e4 + 1e3 * x[:, 0] * x[:, 1], 1e-3 * np.sin(3 * x[:, 2])], axis=1)
    model = fit_table(table_of(x[:400]), y[:400], method=method, seed=0, **QUICK)
    gaps = model.scores(table_of(x[400:])) - y[400:]
    assert np.all(gaps.std(axis=0) < 0.25 * y.std(axis=0))


@pytest.mark.parametrize("method", ["layer", "boost"])
def test_weights_and_order_of_rows(method):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 3)), rng.integers(0, 3, 80)
    weight = rng.integers(0, 3, 80)
    options = {"classes": 3, "method": method, "seed": 0, "units": 30}
    options["settings"] = Boosting(rounds=4)
    weighted = fit_table(table_of(x), y, sample_weight=weight, **options)
    again, order = np.repeat(np.arange(80), weight), rng.permutation(weight.sum())
    rows = again[order]
    repeated = fit_table(table_of(x[rows]), y[rows], **options)
    np.testing.assert_allclose(
        weighted.scores(table_of(x)), repeated.scores(table_of(x)), atol=1e-5
    )
    # Rows of weight 0 are new to the model.
    np.testing.assert_allclose(
        weighted.left_out[weight == 0], weighted.scores(table_of(x))[weight == 0]
    )


@pytest.mark.parametrize("method", ["layer", "boost"])
def test_units_name_rows_of_the_table(conjunction, method):
    x, y = conjunction
    x, y = x[:300], y[:300]
    model = fit_table(table_of(x), y, classes=2, method=method, seed=0, **QUICK)
    views = model.views(table_of(x))
    seen = 0
    for member in model.members:
        for part in member.parts:
            if hasattr(part, "kernel"):
                a, b = part.pairs.T
                pre = views[part.view] @ part.kernel + part.bias
                units = np.arange(len(a))
                # Half way between its rows a unit is zero.
                middle = 0.5 * (pre[a, units] + pre[b, units])
                np.testing.assert_allclose(middle, 0.0, atol=1e-3)
                seen += len(a)
            elif hasattr(part, "slopes"):
                a, b = part.pairs.T
                units = np.arange(len(a))
                phi = part.features(views)
                assert np.all(phi[b, units] > phi[a, units])
                seen += len(a)
    assert seen >= 300


def test_products_are_found_where_they_pay():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(2000, 6)).astype("float32")
    both = ((x[:, 2] > 0) & (x[:, 4] < 0)).astype("float32")[:, None]
    gradient = both - both.mean()
    curvature = np.ones_like(gradient)
    problem = Problem(x.T.copy(), gradient, curvature, slice(0, 2000), 1.0)
    bins = find_bins(problem.x)
    units, values = grow_product_units(problem, bins, 8, rng, 3, "standard", problem.x)
    gains = problem.gains(values)
    best = units.columns[gains.argmax()][units.slopes[gains.argmax()] != 0]
    assert {2, 4} <= set(best.tolist())
    # No unit of one column can do as well.
    kernel, bias, _ = choose_pair_units(
        problem, 8, 16, rng, np.arange(6), np.array([1]), (4.0,)
    )
    assert gains.max() > 1.2 * problem.gains(np.tanh(x @ kernel + bias).T).max()


@pytest.mark.parametrize("kind", ["one logit", "classes", "numbers"])
def test_derivatives(kind):
    rng = np.random.default_rng(0)
    loss = SquaredError() if kind == "numbers" else CrossEntropy(kind == "one logit")
    c = {"one logit": 1, "classes": 4, "numbers": 2}[kind]
    scores = rng.normal(size=(1, c))
    targets = {
        "one logit": np.ones((1, 1)),
        "classes": np.eye(4)[:1],
        "numbers": rng.normal(size=(1, 2)),
    }[kind]
    gradient, curvature = loss.derivatives(scores, targets)
    scale = 0.5 if kind == "numbers" else 1.0
    one, step = np.ones(1), 1e-4
    for output in range(c):
        move = step * np.eye(c)[output]
        up, middle, down = (
            scale * loss.loss(scores + sign * move, targets, one) for sign in (1, 0, -1)
        )
        np.testing.assert_allclose(
            -gradient[0, output], (up - down) / (2 * step), atol=1e-6
        )
        second = (up - 2 * middle + down) / step**2
        factor = 4 / 3 if kind == "classes" else 1.0
        np.testing.assert_allclose(curvature[0, output], factor * second, atol=1e-3)


@pytest.mark.parametrize("separate, c", [(True, 1), (True, 3), (False, 4)])
def test_too_sure_scores_are_judged_as_if_calibrated(separate, c):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(500, c))
    if separate:
        chances = special.expit(scores)
        targets = (rng.random((500, c)) < chances).astype(float)
    else:
        chances = special.softmax(scores, axis=1)
        targets = np.eye(c)[[rng.choice(c, p=p) for p in chances]]
    loss, weight = CrossEntropy(separate), rng.uniform(0.5, 2.0, 500)
    best, calibrating = min(
        (loss.loss(factor * scores, targets, weight), factor)
        for factor in np.linspace(0.5, 2.0, 301)
    )
    assert loss.loss(3 * scores, targets, weight) > 1.1 * best
    factor = 1.0
    for _ in range(6):
        judged, factor = loss.judge(3 * scores, targets, weight, factor)
    assert judged == pytest.approx(best, rel=1e-4)
    assert 3 * factor == pytest.approx(calibrating, abs=0.02)


def test_several_outputs_get_more_products_a_round():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype("float32")
    one = np.ones(150), np.ones(50)
    for c, units in ((1, 16), (3, 32)):
        targets = np.abs(x[:, :c]) - 0.5
        found = boost(
            x[:150], targets[:150], x[150:], targets[150:], SquaredError(), rng,
            np.arange(3), Boosting(rounds=1), *one,
        )  # fmt: skip
        assert len(found.blocks[0][1].columns) == units


def test_boosting_stops_and_keeps_the_best_round():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype("float32")
    y = rng.integers(0, 2, 300)[:, None].astype(float)  # Nothing to learn.
    one = np.ones(200), np.ones(100)
    found = boost(
        x[:200], y[:200], x[200:], y[200:], CrossEntropy(separate=True), rng,
        np.arange(4), Boosting(), *one,
    )  # fmt: skip
    assert found.losses[found.rounds] <= min(found.losses) + 1e-4
    assert len(found.losses) <= found.rounds + Boosting().patience + 1
    held = found.member.scores({"standard": x[200:]})
    np.testing.assert_allclose(held, found.held_scores, atol=1e-4)


@pytest.mark.parametrize("method", ["layer", "boost"])
def test_few_rows_of_noise_give_no_sure_answers(method):
    losses = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(1040, 5)), rng.integers(0, 2, 1040)
        model = fit_table(
            table_of(x[:40]), y[:40], classes=2, method=method, seed=seed, units=300
        )
        chances = model.probabilities(table_of(x[40:]))
        losses.append(-np.mean(np.log(chances[np.arange(1000), y[40:]])))
    # A coin has 0.69. By leave-one-out, which a row's own units flatter, the layer
    # would have more than 1.
    assert np.mean(losses) < 0.8


def test_copies_are_merged():
    table = {
        "a": np.array([1.0, np.nan, 1.0, np.nan, 1.0]),
        "b": np.array(["x", None, "x", None, ""], dtype=object),
    }
    first, copy_of, weight = merged_rows(table, np.array([0, 1, 0, 1, 0]))
    assert len(first) == 3 and sorted(weight) == [1, 2, 2]
    assert copy_of[0] == copy_of[2] and copy_of[1] == copy_of[3]


@pytest.mark.parametrize("method", ["layer", "boost"])
def test_hard_tables(method):
    rng = np.random.default_rng(0)
    n = 60
    options = {"method": method, "seed": 0, **QUICK}
    table = {
        "number": rng.normal(size=n),
        "constant": np.ones(n),
        "missing": np.full(n, np.nan),
        "huge": 10.0 ** rng.uniform(-300, 300, n),
        "letter": rng.choice(list("abcdefgh"), n).astype(object),
    }
    y = np.arange(n) % 26
    model = fit_table(table, y, classes=26, **options)
    new = {**table, "letter": np.full(n, "unseen", dtype=object)}
    assert np.isfinite(model.scores(new)).all()
    # Nothing but contradictions: the same row with every label.
    same = {"number": np.zeros(n)}
    model = fit_table(same, y % 2, classes=2, **options)
    np.testing.assert_allclose(model.probabilities(same), 0.5, atol=0.1)
    two = {"number": np.array([0.0, 1.0])}
    assert fit_table(two, np.array([0, 1]), classes=2, **options).scores(two).shape


def test_one_row_is_refused():
    with pytest.raises(ValueError, match="n_samples=1"):
        fit_table({"a": np.zeros(3)}, np.zeros(3, int), classes=2)


def test_scores_do_not_depend_on_the_rows_beside():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 3)), rng.integers(0, 2, 100)
    model = fit_table(table_of(x), y, classes=2, seed=0, units=50)
    views = model.views(table_of(x))
    one = {view: matrix[:1] for view, matrix in views.items()}
    np.testing.assert_allclose(
        total_scores(model.members, one),
        total_scores(model.members, views)[:1],
        rtol=1e-9,
    )


def test_one_score_of_two_classes_is_a_readout_of_both():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 3)).astype("float32")
    codes = (x[:, 0] * x[:, 1] > 0).astype(int)
    views = {"standard": x, "normal": x}
    arguments = views, np.arange(3), codes, np.eye(2)[codes]
    fit = fit_layer(*arguments, np.random.default_rng(1), units=50)
    for member, l2 in zip(fit.members, fit.l2, strict=True):
        whole = ridge_left_out(member.features(views), np.eye(2)[codes])
        assert l2 == whole.l2
        own, both = (one / np.abs(one).max() for one in (member.kernel, whole.kernel))
        np.testing.assert_allclose(own, both, atol=1e-3)
    scores = total_scores(fit.members, views)
    # Logits of both classes add up to the same for all rows.
    np.testing.assert_allclose(np.ptp(scores.sum(axis=1)), 0.0, atol=1e-8)


@pytest.mark.parametrize(
    "rows, given, bags", [(100, None, 4), (300, None, 8), (700, None, 4), (300, 3, 3)]
)
def test_bags_if_nobody_says_how_many(rows, given, bags):
    x = np.random.default_rng(0).normal(size=(rows, 2))
    options = {"units": 20, "settings": Boosting(rounds=1), "bags": given}
    model = fit_table(
        table_of(x), (x[:, 0] > 0).astype(int), classes=2, method="boost", **options
    )
    assert len(model.facts["rounds"]) == bags


@pytest.mark.parametrize(
    "rows, method, classes, units",
    [(100, "layer", 2, 400), (1600, "layer", 2, 550), (1600, "boost", None, 800)],
)
def test_units_if_nobody_says_how_many(rows, method, classes, units):
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=rows), "b": rng.normal(size=rows)}
    target = rng.integers(0, 2, rows) if classes else rng.normal(size=(rows, 1))
    settings = Boosting(rounds=1)
    model = fit_table(
        table, target, classes=classes, method=method, settings=settings, seed=0
    )
    # Two parts of units beside the columns themselves.
    widths = {
        sum(len(part.bias) for part in member.parts[1:])
        for member in model.members
        if any(hasattr(part, "factor") for part in member.parts)
    }
    assert widths == {units}
