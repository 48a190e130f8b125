"""A target whose file says what goes wrong, to test that the runner notices."""

import json
import os
import time

from _fuzz import Target

from skhash.exceptions import InvalidFileError


def originals():
    return {"plain": b'{"do": "same"}'}


def read(path):
    match json.loads(path.read_bytes())["do"]:
        case "silent":
            return "other"
        case "nameless":
            raise InvalidFileError("the file", "is damaged.")
        case "error":
            raise KeyError("do")
        case "hang":
            while True:
                pass
        case "wait":
            time.sleep(1000)
        case "memory":
            bytes(10**9)
        case "wrapped memory":
            try:
                bytes(10**9)
            except MemoryError as error:
                raise InvalidFileError(path, "is too large.") from error
        case "crash":
            os.abort()
        case "refused":
            raise InvalidFileError(path, "is damaged.")
    return "same"


TOY = Target("toy", ".json", originals, read)
