# SPDX-License-Identifier: Apache-2.0
"""Prints the folder of ``magicube.pc``."""

from libmagicube import pkg_config_dir

print(pkg_config_dir())
