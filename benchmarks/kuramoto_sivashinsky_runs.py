"""The data and the fits of kuramoto_sivashinsky.py, whose head says what is done."""

import functools
import itertools
import os
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from results import Results

RESULTS = Results("kuramoto_sivashinsky")
POINTS, LENGTH, STEP, PAIRS = 64, 22.0, 2.0, 100
TRAIN, VALIDATION, TEST = slice(0, 80), slice(80, 100), slice(100, 150)
HALF = slice(0, 40)
SEEDS, WIDTHS = (0, 1, 2), (512, 2048)
FRAMES = ("none", "shift", "shift, reflection")
SCALES = (0.0625, 0.125, 0.25, 0.5)
# Standard deviations of kernels.
RANDOM_SCALES = (0.05, 0.1, 0.2, 0.4)
BLOCK_SCALES = (0.05, 0.1, 0.25)
L2 = 1e-18
LINEAR_PENALTIES = (1e-14, 1e-10, 1e-6, 1e-3)
MANY = 1000
SETTLED = 250
NOISE = 0.1
NETWORKS = [
    *itertools.product(("fourier",), FRAMES),
    *itertools.product(("random",), (FRAMES[0], FRAMES[2])),
    *itertools.product(("signal", "fno"), FRAMES),
]
COMPOSED = tuple(itertools.product(("fourier",), ("none", "shift, reflection")))
MODES = 16
# What else might keep composed steps bounded, without perturbed states.
REMEDIES = {
    "as above": {},
    "l2 = 1e-14": {"l2": 1e-14},
    "l2 = 1e-10": {"l2": 1e-10},
    "l2 = 1e-6": {"l2": 1e-6},
    "9 input modes": {"modes": 9},
    "9 input modes, l2 = 1e-10": {"modes": 9, "l2": 1e-10},
}


@functools.cache
def states():
    """`(trajectories, PAIRS + 1, POINTS)` states, a step apart."""
    from keras_swim.data.operator_pairs import kuramoto_sivashinsky_pairs

    before, after = kuramoto_sivashinsky_pairs(
        TEST.stop, PAIRS, STEP, POINTS, LENGTH, verbose=0
    )
    return np.concatenate([before, after[:, -1:]], axis=1)


def pairs(part, steps=1):
    """Inputs and outputs, so many steps apart."""
    u = states()[part]
    return u[:, :-steps].reshape(-1, POINTS), u[:, steps:].reshape(-1, POINTS)


@functools.cache
def perturbed_pairs():
    """Training pairs, every second one from a perturbed state."""
    from keras_swim.core.periodic_pde import kuramoto_sivashinsky

    x, y = (u.copy() for u in pairs(TRAIN))
    amplitude = np.abs(np.fft.rfft(x, norm="forward")).mean(axis=0)
    amplitude[amplitude < 0.01 * amplitude.max()] = 0
    moved = np.arange(1, len(x), 2)
    parts = np.random.default_rng(0).normal(size=(2, len(moved), len(amplitude)))
    noise = NOISE * amplitude * (parts[0] + 1j * parts[1]) / np.sqrt(2)
    x[moved] += np.fft.irfft(noise, POINTS, norm="forward")
    y[moved] = kuramoto_sivashinsky(x[moved], STEP, LENGTH)
    return x, y


def errors_of(found, y):
    return np.linalg.norm(found - y, axis=1) / np.linalg.norm(y, axis=1)


def summary(errors):
    return {
        "mean": float(np.mean(errors)),
        "median": float(np.median(errors)),
        "99 %": float(np.quantile(errors, 0.99)),
        "worst": float(np.max(errors)),
    }


def network(kind, frame, width, seed, choice):
    """An unfitted `SwimOperator`."""
    from keras_swim import PeriodicShift, SwimOperator

    random = kind == "random"
    return SwimOperator(
        POINTS,
        "fourier" if random else kind,
        width,
        choice.get("modes", MODES),
        symmetries=[PeriodicShift()] if "shift" in frame else [],
        reflection="odd" if "reflection" in frame else None,
        scale=choice["scale"],
        block_scale=choice.get("block_scale"),
        sampler="random" if random else "gradient",
        seed=seed,
    )


def fitted(kind, frame, width, seed, choice, x, y):
    """The model, and the seconds of its fit."""
    from keras_swim import swim_fit

    keras.backend.clear_session()
    model = network(kind, frame, width, seed, choice)
    start = time.process_time()
    swim_fit(model, x, y, l2=choice.get("l2", L2), solver="qr", seed=seed, verbose=0)
    return model, time.process_time() - start


def stepper(model):
    """Function of states; `predict` would cost more than the network."""
    import tensorflow as tf

    step = tf.function(lambda u: model(u, training=False))
    return lambda u: step(tf.constant(u)).numpy()


def chosen(setting, values, kind, frame, width, choice):
    """The choice, with the value that is best on the validation trajectories."""
    x, y = pairs(HALF)
    u, v = pairs(VALIDATION)
    errors = {}
    for value in values:
        trial = {**choice, setting: value}
        model, _ = fitted(kind, frame, width, 0, trial, x, y)
        errors[value] = float(errors_of(stepper(model)(u), v).mean())
    log("chosen", setting, kind, frame, width, errors)
    return {"value": min(errors, key=errors.get), "tried": list(errors.items())}


def choice_of(kind, frame, width):
    """The settings of a network."""
    base = kind if kind == "random" else "fourier"
    scales = RANDOM_SCALES if kind == "random" else SCALES
    name = f"scale/{base}/{frame}/{width}"
    scale = RESULTS.run(name, chosen, "scale", scales, base, frame, width, {})
    choice = {"scale": scale["value"]}
    if kind == "fno":
        name, choice_512 = f"block_scale/{frame}", choice_of(base, frame, WIDTHS[0])
        given = "block_scale", BLOCK_SCALES, kind, frame, WIDTHS[0], choice_512
        choice["block_scale"] = RESULTS.run(name, chosen, *given)["value"]
    return choice


def one_step(kind, frame, width, seed, training, choice):
    """Errors of one step and of five, and of many for those that are composed."""
    x, y = pairs(TRAIN) if training == "attractor" else perturbed_pairs()
    model, seconds = fitted(kind, frame, width, seed, choice, x, y)
    step = stepper(model)
    u, v = pairs(TEST)
    result = {"seconds": seconds, "one": summary(errors_of(step(u), v))}
    if (kind, frame) in COMPOSED:
        u, v = pairs(TEST, 5)
        for _ in range(5):
            u = step(u)
        result["five"] = summary(errors_of(u, v))
        result["long"] = judged(composed(step))
    log(kind, frame, width, seed, training, seconds, result["one"])
    return result


def direct(kind, frame, width, seed, choice):
    """Errors of T = 10 by one network."""
    model, seconds = fitted(kind, frame, width, seed, choice, *pairs(TRAIN, 5))
    u, v = pairs(TEST, 5)
    result = {"seconds": seconds, "five": summary(errors_of(stepper(model)(u), v))}
    log("direct", kind, frame, width, seed, result)
    return result


def plain(steps):
    """Persistence and linear least squares, directly over so many steps."""
    from keras_swim import PeriodicShift

    shift = PeriodicShift()
    (x, y), (u, v), (a, b) = (pairs(part, steps) for part in (TRAIN, VALIDATION, TEST))
    result = {"persistence": {**summary(errors_of(a, b)), "seconds": 0.0}}

    def framed(inputs, outputs):
        inputs, outputs = map(keras.ops.convert_to_tensor, (inputs, outputs))
        return (np.asarray(shift.into(z, inputs)) for z in (inputs, outputs))

    for name, into in (("linear", lambda *z: z), ("linear, shift", framed)):
        start = time.process_time()
        (p, q), (r, s), (f, g) = into(x, y), into(u, v), into(a, b)
        gram, best = p.T @ p, None
        for penalty in LINEAR_PENALTIES:
            ridge = penalty * np.trace(gram) / len(gram)
            kernel = np.linalg.solve(gram + ridge * np.eye(len(gram)), p.T @ q)
            error = errors_of(r @ kernel, s).mean()
            if best is None or error < best[0]:
                best = error, kernel
        # A shift changes no norm, so that errors may be measured in the frame.
        seconds = time.process_time() - start
        result[name] = {**summary(errors_of(f @ best[1], g)), "seconds": seconds}
    return result


def composed(step):
    """`(MANY + 1, trajectories, POINTS)`; what has left the attractor is NaN."""
    limit = 2 * rms(states()).max()
    u = states()[TEST, 0]
    result = [u]
    for _ in range(MANY):
        u = step(u)
        # Not greater, so that NaN counts as left.
        u[~(rms(u) <= limit)] = np.nan
        result.append(u)
    return np.array(result)


def true_long():
    """Statistics of the true trajectories, over the same time."""
    from keras_swim.core.periodic_pde import kuramoto_sivashinsky

    # Longer steps than for pairs: accuracy over 2000 units of time there is not.
    u = kuramoto_sivashinsky(
        states()[TEST, 0], MANY * STEP, LENGTH, int(MANY * STEP / 0.05), snapshots=MANY
    )
    u = np.concatenate([states()[TEST, :1], u], axis=1).swapaxes(0, 1)
    return {**judged(u), "example": u[:101, 0].round(4).tolist()}


def sample():
    """Statistics of the training trajectories: how much the true ones differ."""
    found = statistics(states()[TRAIN].swapaxes(0, 1))
    return {"near until": 0.0, "left": 0.0, **found}


def rms(u):
    return np.sqrt(np.mean(u**2, axis=-1))


def judged(u):
    """How long composed steps stay near the truth and on the attractor."""
    truth = states()[TEST].swapaxes(0, 1)
    near = u[: len(truth)]
    error = np.linalg.norm(near - truth, axis=2) / np.linalg.norm(truth, axis=2)
    error = np.where(np.isnan(error), np.inf, error)
    far = error > 0.5
    first = np.where(far.any(axis=0), far.argmax(axis=0), len(far))
    there = np.isfinite(u).all(axis=2)
    result = {
        "median error": [min(float(e), 1e3) for e in np.median(error, axis=1)],
        "near until": float(STEP * first.mean()),
        "stayed": there.mean(axis=1)[::10].tolist(),
        "left": float(1 - there[-1].mean()),
        "example": near[:, 0].round(4).tolist() if there[-1, 0] else None,
    }
    if there[-1].any():
        result.update(statistics(u[SETTLED:, there[-1]]))
    return result


def statistics(u):
    """Of states `(times, trajectories, points)`."""
    energy = np.mean(u**2, axis=2)
    return {
        "u": float(rms(u.ravel())),
        "energy varies": float(energy.std()),
        "change": float(rms(np.diff(u, axis=0).ravel())),
        "spectrum": np.abs(np.fft.rfft(u, norm="forward"))[..., 1 : MODES + 1]
        .mean(axis=(0, 1))
        .tolist(),
        # A trajectory that does not change any more, but for a drift.
        "settled": float(np.mean(energy[-100:].std(axis=0) < 0.1 * energy.std())),
    }


def log(*words):
    print(*words, file=sys.stderr, flush=True)


def run_all(seeds, widths):
    keras.config.set_floatx("float64")
    # The first fit alone pays for what TensorFlow does once.
    for kind, frame in NETWORKS:
        x, y = pairs(slice(0, 2))
        fitted(kind, frame, 16, 0, {"scale": 0.5}, x, y)
    RESULTS.run("plain/1", plain, 1)
    RESULTS.run("plain/5", plain, 5)
    RESULTS.run("true", true_long)
    RESULTS.run("sample", sample)
    # The dearest last, so that a cut run shows most.
    for (kind, frame), seed, width in itertools.product(NETWORKS, seeds, widths):
        choice = choice_of(kind, frame, width)
        name = f"{kind}/{frame}/{width}/{seed}"
        training = ("attractor", "perturbed")[: 1 + ((kind, frame) in COMPOSED)]
        for which in training:
            key = f"step/{name}/{which}"
            RESULTS.run(key, one_step, kind, frame, width, seed, which, choice)
        if (kind, frame) in COMPOSED:
            RESULTS.run(f"direct/{name}", direct, kind, frame, width, seed, choice)
    kind, frame = COMPOSED[-1]
    base = choice_of(kind, frame, WIDTHS[0])
    for name, change in REMEDIES.items():
        given = kind, frame, WIDTHS[0], 0, "attractor", {**base, **change}
        RESULTS.run(f"remedy/{name}", one_step, *given)
