"""Bytes that functions move."""


def bytes_and_result(function, *arrays):
    """(the bytes that this process sends while ``function`` runs, by the recorder's notes; its result).  Collective."""
    recorder, sent = arrays[0].grid.process.recorder, [0]

    def note(record, moved):
        for movement in moved:
            sent[0] += sum(movement.traffic().sent.values())

    before, recorder.on_end = recorder.on_end, note
    try:
        result = function(*arrays)
    finally:
        recorder.on_end = before
    return sent[0], result


def bytes_sent(function, *arrays):
    """The bytes that this process sends while ``function`` runs.  Collective."""
    return bytes_and_result(function, *arrays)[0]
