"""The table of pieces, in the order of their problems. Adding one to a module of pieces adds it here."""

from harness.pieces import data_pieces, model_pieces, training_pieces
from harness.pieces.spec import PieceSpec

_FOUND = [
    piece
    for module in (model_pieces, data_pieces, training_pieces)
    for piece in vars(module).values()
    if isinstance(piece, PieceSpec)
]
PIECES = {piece.name: piece for piece in sorted(_FOUND, key=lambda piece: piece.module)}
# The module that defines each name, including those that are only needed by another piece.
MODULES = {
    name: PIECES[name].module if name in PIECES else piece.module
    for piece in PIECES.values()
    for name in (piece.name, *piece.needs)
}
