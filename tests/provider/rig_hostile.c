/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/rig_hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/bootstrap/stream.h"

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct rig *rig = arg;
    (void)level, (void)module;
    snprintf(rig->logged, sizeof(rig->logged), "%s", text);
}

static struct wring_log keeper = {keep_line, NULL, WRING_LOG_INFO};

static enum wring_status open_tcp(const struct wring_provider_params *params,
                                  struct wring_provider **out)
{
    struct wring_provider_params mine = *params;
    mine.log = &keeper;
    return wring_provider_tcp.open(&mine, out);
}

static const struct wring_provider_driver driver = {"tcp", open_tcp};

static void take_accepted(struct rig *rig, const struct wring_event *event)
{
    if (event->bytes == 6 && memcmp(event->data, "friend", 6) == 0) {
        rig->honest = event->conn;
        return;
    }
    rig->evil = event->conn;
    rig->evil_accepted++;
}

static void take(struct rig *rig, const struct wring_event *event)
{
    bool honest = event->conn == rig->honest;
    switch (event->kind) {
    case WRING_EVENT_ACCEPTED:
        take_accepted(rig, event);
        break;
    case WRING_EVENT_ARRIVED:
        rig->greeted += honest;
        if (!honest) {
            rig->evil_arrived++;
            rig->evil_imm = event->imm;
            rig->evil_bytes = event->bytes;
        }
        break;
    case WRING_EVENT_MESSAGE:
        rig->evil_messages += !honest;
        break;
    case WRING_EVENT_CLOSED:
        CHECK(!honest, "the friend is lost: %s", event->text);
        rig->evil_closed++;
        rig->evil_why = event->status;
        snprintf(rig->evil_text, sizeof(rig->evil_text), "%s", event->text);
        event->conn->provider->ops->disconnect(event->conn);
        rig->evil = NULL;
        break;
    default:
        break;
    }
}

void rig_turn(struct rig *rig)
{
    struct wring_event events[8];
    size_t n = rig->victim.provider->ops->poll(rig->victim.provider, events, 8);
    for (size_t i = 0; i < n; i++)
        take(rig, &events[i]);
    end_turn(&rig->friend);
}

bool rig_open(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    keeper.arg = rig;
    ends_use(&driver);
    if (!end_open(&rig->victim, 1, RIG_BYTES, 16) || !end_open(&rig->friend, 1, RIG_BYTES, 16) ||
        !end_listen(&rig->victim, rig->address, &rig->address_bytes) ||
        !end_connect(&rig->friend, rig->address, rig->address_bytes, "friend"))
        return false;
    RIG_UNTIL(rig, rig->honest != NULL && rig->friend.connected == 1);
    end_import(&rig->friend, &rig->victim);
    return rig->friend.remote != NULL;
}

void rig_close(struct rig *rig)
{
    end_close(&rig->friend);
    end_close(&rig->victim);
}

void rig_check_friend(struct rig *rig, const char *after)
{
    unsigned next = rig->greeted;
    memset(rig->friend.base, 0x11, 16);
    CHECK(end_put(&rig->friend, rig->friend.base, RIG_BYTES - 16, 16, next, next) == WRING_OK,
          "put after %s", after);
    RIG_UNTIL(rig, rig->greeted == next + 1 && rig->friend.done == next + 1);
    CHECK(is_all(rig->victim.base + RIG_BYTES - 16, 16, 0x11), "bytes after %s", after);
    memset(rig->victim.base + RIG_BYTES - 16, 0, 16);
}

int rig_dial(const struct rig *rig)
{
    struct sockaddr_storage to;
    socklen_t bytes;
    if (wring_tcp_address_unpack(rig->address, rig->address_bytes, &to, &bytes) != WRING_OK)
        return -1;
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, bytes) == 0 &&
        fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int rig_dial_proven(struct rig *rig, uint8_t secret)
{
    return rig_dial_for(rig, secret, WRING_AUTH_TCP, "evil", 4, NULL);
}

int rig_dial_for(struct rig *rig, uint8_t secret, uint16_t purpose, const void *hello, size_t bytes,
                 uint8_t nonce[WRING_AUTH_NONCE_BYTES])
{
    const uint8_t key[WRING_SECRET_BYTES] = {secret};
    struct wring_auth auth;
    uint64_t limit = wring_deadline_in(WAIT_NS);
    int fd = rig_dial(rig);
    if (fd < 0)
        return -1;
    wring_auth_init(&auth, true, purpose, key, hello, bytes);
    while (wring_auth_status(&auth) == WRING_ERR_AGAIN && wring_now_ns() < limit &&
           wring_stream_auth(fd, &auth))
        rig_turn(rig);
    if (wring_auth_status(&auth) == WRING_OK) {
        if (nonce != NULL)
            memcpy(nonce, wring_auth_nonce(&auth), WRING_AUTH_NONCE_BYTES);
        return fd;
    }
    close(fd);
    return -1;
}

bool rig_send(struct rig *rig, int fd, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (bytes > 0 && wring_now_ns() < limit) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        }
        rig_turn(rig);
    }
    return bytes == 0;
}

bool rig_wait_closed(struct rig *rig, int fd)
{
    uint8_t drop[512];
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (wring_now_ns() < limit) {
        ssize_t n = recv(fd, drop, sizeof(drop), 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return true;
        rig_turn(rig);
        usleep(100); /* it may take seconds */
    }
    return false;
}
