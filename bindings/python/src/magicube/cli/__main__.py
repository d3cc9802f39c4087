# SPDX-License-Identifier: Apache-2.0
"""python -m magicube.cli"""

from magicube.cli import main

main()
