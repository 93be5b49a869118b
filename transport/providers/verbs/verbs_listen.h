/* SPDX-License-Identifier: Apache-2.0 */
/** How connections come and go: listening, dialing, accepting, and the table of all there are. */
#ifndef WRING_VERBS_LISTEN_H
#define WRING_VERBS_LISTEN_H

#include <wring/provider.h>

struct verbs_conn;
struct verbs_provider;

/* as wring_provider_ops has them */
enum wring_status wring_verbs_listen(struct wring_provider *base, void *address, size_t *bytes);
enum wring_status wring_verbs_connect(struct wring_provider *base, const void *address,
                                      size_t address_bytes, const void *hello, size_t hello_bytes,
                                      struct wring_conn **out);
void wring_verbs_disconnect(struct wring_conn *base);

/** Take those in who have come; what comes to nothing before anybody knows of it goes silently. */
void wring_verbs_accept(struct verbs_provider *verbs);

/** Look at the listener again, if it was left alone for a while and that is over. */
void wring_verbs_listen_again(struct verbs_provider *verbs);

/** Take it out of the table and free it. */
void wring_verbs_remove_conn(struct verbs_provider *verbs, struct verbs_conn *conn);

/** Who is at the other end of a socket. @param text out, [bytes] */
void wring_verbs_peer_name(int fd, char *text, size_t bytes);

#endif
