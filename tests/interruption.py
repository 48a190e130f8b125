"""An interruption, as by a user's Ctrl-C."""


class StopAfter:
    """A callback that interrupts the training, as a user does, after some epochs."""

    def __init__(self, n_epochs):
        self.n_epochs = n_epochs

    def setup(self, estimator, context):
        self.seen = 0

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        self.seen += 1
        if self.seen == self.n_epochs:
            raise KeyboardInterrupt
