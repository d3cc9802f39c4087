# SPDX-License-Identifier: Apache-2.0
"""Filter for Doxygen: plain C comments of a header become documentation of what they belong to.

    doxygen.py HEADER      prints the header

A comment after code on its line belongs to that code, one that begins a line to what follows it,
and the first of a file, after the licence, to the file.
"""

import re
import sys
from pathlib import Path

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def main() -> None:
    path = Path(sys.argv[1])
    text = path.read_text()
    found = list(COMMENT.finditer(text))
    pieces, end = [], 0
    for number, comment in enumerate(found):
        pieces.append(text[end : comment.start()])
        before = text[text.rfind("\n", 0, comment.start()) + 1 : comment.start()]
        body = comment.group()[2:]
        if number == 0:
            pieces.append(comment.group())  # the licence
        elif number == 1:
            pieces.append(f"/** @file {path.name}\n *{body}")
        else:
            pieces.append(("/**< " if before.strip() else "/**") + body)
        end = comment.end()
    pieces.append(text[end:])
    print("".join(pieces), end="")


if __name__ == "__main__":
    main()
