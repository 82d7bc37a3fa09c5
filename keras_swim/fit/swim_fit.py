"""swim_fit: sample the hidden layers, solve the readouts, in one pass."""

from dataclasses import replace

from keras_swim.fit.augmentation import as_augmentation, refuse_cached_copies
from keras_swim.fit.boosted import fit_boosted, is_boosted
from keras_swim.fit.cache import Cache
from keras_swim.fit.chain import is_chained
from keras_swim.fit.chained import fit_chained
from keras_swim.fit.evaluate import training_metrics, validation_metrics
from keras_swim.fit.hidden import sample_hidden
from keras_swim.fit.one_epoch import begin, end
from keras_swim.fit.options import check_options
from keras_swim.fit.plan import make_plan
from keras_swim.fit.prepare import check_first, load_rows, open_data
from keras_swim.fit.progress import Progress
from keras_swim.fit.snapshot import forget_compiled, undone_on_failure
from keras_swim.fit.solve import add_up, solve_readouts


def swim_fit(
    model,
    x,
    y=None,
    *,
    validation_data=None,
    validation_split=0.0,
    batch_size=None,
    sample_weight=None,
    class_weight=None,
    l2="auto",
    solver="auto",
    seed=None,
    callbacks=None,
    verbose="auto",
    sums_dtype="float64",
    sums_device="auto",
    keep_state=False,
    cache_dir=None,
    augmentation=None,
    copies=1,
):
    """Fits a Keras model without gradients.

    Every trainable `SampledDense` is sampled from pairs of rows, and every
    final `Dense` is solved by least squares. `BatchNormalization` gets its
    statistics, and so does a `Normalization` that has none yet, both from at
    most `max(4 * units, 10000)` rows. Softmax and sigmoid outputs are
    calibrated on held-out rows. Frozen layers, for example a whole backbone,
    run once per row. The blocks of a `SwimBoost` are fitted by boosting instead.
    Readouts that other layers follow (`SwimOperator`) are fitted to what these layers
    must be given, one after the other, by orthogonal factorisation.

    Args:
        model: Keras model: Sequential, Functional, or subclassed with a `call`
            that works on symbolic tensors. Need not be compiled or built.
        x: Input: arrays or tensors (lists or dicts of them for several
            inputs), data frames, `tf.data.Dataset`, `keras.utils.PyDataset`,
            torch `DataLoader`, a generator, or a function returning one. Data
            sets yield `(x, y)` or `(x, y, sample_weight)` batches and are read
            once.
        y: Targets, one array an output: integer labels or one-hot codes for
            classes, 0/1 for sigmoids, real numbers for regression.
        validation_data: `(x, y)`, `(x, y, sample_weight)` or a data set. Only
            reported, never used for choosing anything.
        validation_split: Fraction of the last rows to use as validation data.
        batch_size: Rows at a time. Defaults to 32 for frozen layers with
            weights and 2048 for the others. The result does not depend on it.
        sample_weight: One non-negative weight a row; a row of weight 2 counts
            as two rows.
        class_weight: Dict from label to weight (1 for labels that it lacks),
            or `"balanced"`.
        l2: Penalty of the readout, relative to the mean square of its
            (centred) features, so that it means the same for any number of
            rows and any scale: lambda = l2 * trace(F'F) / units. `"auto"`
            chooses it by squared error on held-out rows, with the units left
            out that these rows have made.
        solver: `"auto"`; `"cholesky"` (Gram matrix of units), `"dual"` (of
            rows), `"qr"` (accurate for badly conditioned features), or
            `"svd"` (the paper's: no penalty, singular values below `l2` times
            the largest are dropped, 1e-10 with `l2="auto"`).
        seed: Non-negative integer, for layers without a seed of their own and
            for the choice of held-out rows.
        callbacks: `keras.callbacks.Callback`s. The fit is one epoch of one
            batch.
        verbose: `"auto"`, 0 (silent), 1 (progress bars) or 2 (a line a stage).
        sums_dtype: `"float64"`, or `"float32"`: block products in float32,
            added in float64. Faster; enough for `l2` of 1e-5 and more.
        sums_device: `"auto"`, `"host"` or `"device"`: where features are
            summed up. With `"auto"`, on the accelerator if there is one; only
            the sums leave it.
        keep_state: Whether to keep the readout's sums (as large as a square
            matrix of its inputs) as `history.state`, a `ReadoutState`: what
            `swim_update` and `swim_forget` go on from. For models with one
            output.
        cache_dir: `None`, or a folder for the features behind the frozen layers
            (behind none, for the rows of a stream) and, while a fit goes on,
            for its sums. A fit that was interrupted goes on from there when it
            is started again, and another fit on the same data need not run the
            frozen layers. The folder is checked against the layers and the
            data, which must come in the same order.
        augmentation: `None`, or what to make changed copies of the inputs with: a
            Keras layer (`RandomFlip`, ...), a list of layers, or a function of a
            batch. Copies are extra rows, and each costs another run of the
            frozen layers; copies of a row are held out together. Not with
            `cache_dir`: copies differ each time.
        copies: Number of changed copies of every row.

    Returns:
        A `keras.callbacks.History`. Its logs hold `loss` and `accuracy` (or
        `r2`) on training rows, the same with `val_` for validation data and
        with `cv_` from held-out rows, the chosen `l2`, the `temperature` (the
        factor T of `softmax(T * scores)`; with several yes/no outputs the mean
        of theirs), and `seconds` with those of each stage. Metrics are weighted
        by the sample weights. If the model is compiled, its own loss and
        metrics are reported for training and validation rows; `cv_loss` stays
        log loss or mean squared error. Training metrics come from at most
        about two thousand rows.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 4))
    >>> y = (x[:, 0] * x[:, 1] > 0).astype(int)
    >>> model = keras.Sequential(
    ...     [SampledDense(200), keras.layers.Dense(2, activation="softmax")]
    ... )
    >>> history = swim_fit(model, x, y, seed=0, verbose=0)
    >>> history.history["cv_accuracy"][0] > 0.8
    True
    """
    if is_boosted(model):
        return fit_boosted(
            model,
            x,
            y,
            validation_data=validation_data,
            validation_split=validation_split,
            sample_weight=sample_weight,
            class_weight=class_weight,
            seed=seed,
            callbacks=callbacks,
            verbose=verbose,
            others={
                "l2": (l2, "auto"),
                "solver": (solver, "auto"),
                "keep_state": (keep_state, False),
                "cache_dir": (cache_dir, None),
                "augmentation": (augmentation, None),
            },
        )
    if is_chained(model):
        return fit_chained(
            model,
            x,
            y,
            validation_data=validation_data,
            validation_split=validation_split,
            batch_size=batch_size,
            sample_weight=sample_weight,
            l2=l2,
            solver=solver,
            seed=seed,
            callbacks=callbacks,
            verbose=verbose,
            others={
                "class_weight": (class_weight, None),
                "keep_state": (keep_state, False),
                "cache_dir": (cache_dir, None),
                "augmentation": (augmentation, None),
            },
        )
    cache = None if cache_dir is None else Cache(cache_dir)
    augment = as_augmentation(augmentation, copies)
    refuse_cached_copies(cache, augment)
    options = check_options(
        l2, solver, seed, sums_dtype, sums_device, batch_size, model
    )
    if cache is not None and seed is None:
        # Or the layers would differ from those of an interrupted fit.
        options = replace(options, seed=cache.seed())
    if validation_data is not None and validation_split:
        raise ValueError("Pass `validation_data` or `validation_split`, not both.")
    validates = validation_data is not None or bool(validation_split)
    progress = Progress(verbose, stages=4 + validates)
    reader, validation = open_data(
        model, x, y, sample_weight, validation_data, validation_split
    )
    plan = make_plan(model, reader.specs())
    check_first(plan, reader, validation, class_weight)
    if keep_state and len(plan.readouts) > 1:
        raise ValueError(
            "`keep_state=True` is for models with one output. Received: a model "
            f"with {len(plan.readouts)}."
        )
    told = begin(callbacks, model)
    data = None
    try:
        with undone_on_failure(model, plan.fitted_layers):
            data = load_rows(
                plan, reader, options, class_weight, progress, cache, augment
            )
            _announce(plan, data, options, progress)
            # An interrupted pass is known by all of its layers and rows, so with
            # a cache it starts from these.
            rest = sample_hidden(plan, data, options, progress, carry=cache is None)
            sums, folds = add_up(
                *rest,
                options,
                progress,
                None if cache is None else cache.sums,
                keep_state,
            )
            logs, outputs, states = solve_readouts(
                *rest, sums, folds, options, progress
            )
            forget_compiled(model)
            logs.update(training_metrics(model, *rest, folds, outputs, options))
            if validation is not None:
                total = validation.source.rows
                with progress.stage("validation", "validating", total):
                    found = validation_metrics(
                        model, plan, validation, options, progress.advance
                    )
                logs.update({f"val_{name}": value for name, value in found.items()})
    finally:
        if data is not None:
            data.rows.close()
    end(told, logs, progress)
    if keep_state:
        (model.history.state,) = states
        model.history.state.class_weighted = class_weight is not None
    return model.history


def _announce(plan, data, options, progress):
    layers = ", ".join(
        f"{step.operation.name} ({step.operation.units} units)" for step in plan.sampled
    )
    solved = ", ".join(
        f"{readout.layer.name} ({readout.kind})" for readout in plan.readouts
    )
    progress.say(f"{data.count} rows; sampled: {layers or 'nothing'}; solved: {solved}")
    needed = sum(_sums_bytes(plan, readout, data.count) for readout in plan.readouts)
    progress.say_memory(needed)


def _sums_bytes(plan, readout, rows):
    width = plan.graph.tensors[readout.features].shape[-1] or 0
    # The Gram matrix (or the rows), and its centred copy.
    return 8 * width * min(rows, width) * 2
