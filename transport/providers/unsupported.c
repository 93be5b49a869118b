/* SPDX-License-Identifier: Apache-2.0 */
#include <wring/provider.h>

enum wring_status wring_unsupported_remote_map(struct wring_remote *remote, void **out)
{
    (void)remote, (void)out;
    return WRING_ERR_UNSUPPORTED;
}
