/* SPDX-License-Identifier: Apache-2.0 */
/** The parts of `wring info`: gathered as JSON first, then shown to people from that. */
#ifndef WRING_TOOLS_INFO_H
#define WRING_TOOLS_INFO_H

#include <stdio.h>

#include "base/config.h"
#include "base/json.h"

json_t *wring_info_topology(void);
json_t *wring_info_rdma(const struct wring_config *config);
json_t *wring_info_network(const struct wring_config *config);
json_t *wring_info_executor(const struct wring_config *config);
json_t *wring_info_launcher(const struct wring_config *config);

/** Print one part; borrowed. */
void wring_info_show_rdma(FILE *file, json_t *rdma);
void wring_info_show_network(FILE *file, json_t *network);

#endif
