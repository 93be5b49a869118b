# SPDX-License-Identifier: Apache-2.0
"""The inputs of golden files, in a file for each family of codecs; records has what these share."""
