/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/auth_pair.h"

#include "tests/lib/test.h"

const uint8_t auth_key[WRING_SECRET_BYTES] = {1, 2, 3};
const uint8_t auth_other_key[WRING_SECRET_BYTES] = {1, 2, 4};

void auth_pair_init(struct auth_pair *pair, const uint8_t *initiator_key,
                    const uint8_t *acceptor_key)
{
    wring_auth_init(&pair->initiator, true, WRING_AUTH_TCP, initiator_key, AUTH_HELLO,
                    sizeof(AUTH_HELLO));
    wring_auth_init(&pair->acceptor, false, WRING_AUTH_TCP, acceptor_key, NULL, 0);
}

size_t auth_pair_carry(struct wring_auth *from, struct wring_auth *to, size_t piece)
{
    const void *data;
    size_t n = wring_auth_output(from, &data);
    if (n > piece)
        n = piece;
    size_t taken = wring_auth_input(to, data, n);
    wring_auth_sent(from, n);
    return n > 0 ? taken : 0;
}

void auth_pair_run(struct auth_pair *pair, size_t piece)
{
    size_t moved;
    do {
        moved = auth_pair_carry(&pair->initiator, &pair->acceptor, piece);
        moved += auth_pair_carry(&pair->acceptor, &pair->initiator, piece);
    } while (moved > 0);
}

void auth_pair_check(const struct auth_pair *pair, enum wring_status want)
{
    enum wring_status a = wring_auth_status(&pair->initiator);
    enum wring_status b = wring_auth_status(&pair->acceptor);
    CHECK(a == want, "initiator: %s", wring_status_text(a));
    CHECK(b == want, "acceptor: %s", wring_status_text(b));
}
