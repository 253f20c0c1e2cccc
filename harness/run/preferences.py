"""Pairs of answers on the devices, with what the base says of them."""

from typing import Any

import jax
import numpy as np
from flax import nnx

from harness.pieces.load import attribute_errors_to
from harness.run.rollouts import base_parameters
from harness.run.run_session import Session
from harness.training.dpo import Pairs, base_scorer
from harness.training.sharding import put_batch


class Reference:
    """Asks the base of a run about pairs. Holds the base's parameters, or with adapters those that are zero."""

    def __init__(self, session: Session):
        self._session, self._base = session, base_parameters(session)
        pieces = session.pieces
        self._logits = pieces is not None and pieces.uses("dpo_loss", session.config)

    def pairs(self, state: Any, rows_BPW: np.ndarray) -> Pairs:
        """The pairs of these rows. Of `state`, the parameters count that training leaves as they are."""
        session = self._session
        graph, policy = nnx.split(session.functions.model(state))
        rows: jax.Array = put_batch(rows_BPW, session.mesh)
        score = base_scorer(session.config, graph, logits=self._logits)
        return Pairs(rows, attribute_errors_to(session.pieces, lambda: score(policy, self._base, rows)))
