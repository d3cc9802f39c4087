# SPDX-License-Identifier: Apache-2.0
"""Reading and writing of files; the public names are in magicube.io."""
