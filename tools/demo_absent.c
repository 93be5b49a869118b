/* SPDX-License-Identifier: Apache-2.0 */
/** Stands in for tools/demo/ in a build without a BLAS library. */
#include "tools/commands.h"

int wring_cmd_demo(int argc, char **argv)
{
    (void)argc;
    return wring_fail(argv[0],
                      "not in this build: openblas or zlib was missing when wring was configured "
                      "(Debian: libopenblas-dev, zlib1g-dev; then meson setup --reconfigure)");
}
