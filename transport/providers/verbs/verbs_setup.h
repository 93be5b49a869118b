/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a connection comes to have paths: each side offers its rails, makes queue pairs for the pairs
 * of rails that both find, tells their addresses, and says when they are ready.
 */
#ifndef WRING_VERBS_SETUP_H
#define WRING_VERBS_SETUP_H

#include <stddef.h>
#include <stdint.h>

struct verbs_conn;

void wring_verbs_say_offer(struct verbs_conn *conn);

/* The peer's words; data[bytes] is hostile. */
void wring_verbs_take_offer(struct verbs_conn *conn, const uint8_t *data, size_t bytes);
void wring_verbs_take_cards(struct verbs_conn *conn, const uint8_t *data, size_t bytes);
void wring_verbs_take_ready(struct verbs_conn *conn, const uint8_t *data, size_t bytes);

#endif
