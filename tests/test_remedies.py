"""Sentences that know what they advise."""

from __future__ import annotations

import pickle

from gtsam_sdp.remedies import Advice, Remedy
from gtsam_sdp.results.notes import Note, NoteKind


def test_other_words_for_remedies() -> None:
    time = Advice("the staircase (", Remedy.TIME, "60)")
    note = Note("try ", Remedy.REFINE, " or ", time, kind=NoteKind.ADVICE)
    assert note == "try gtsam_sdp.refine or the staircase (time_limit=60)"
    assert note.remedy is Remedy.REFINE
    words = {Remedy.TIME: "--time-limit ", Remedy.REFINE: "gtsam-sdp solve"}
    assert note.said(words) == "try gtsam-sdp solve or the staircase (--time-limit 60)"
    assert note.said({}) == note
    assert Note("a name such as time_limit=60").said(words) == "a name such as time_limit=60"


def test_it_can_be_pickled() -> None:
    note = Note("try ", Remedy.RELAX, kind=NoteKind.ADVICE)
    again = pickle.loads(pickle.dumps(note))
    assert (again, again.kind, again.parts) == (note, note.kind, note.parts)
