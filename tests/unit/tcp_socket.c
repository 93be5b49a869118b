/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tcp_socket.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>

#include "tests/lib/test.h"
#include "transport/providers/tcp/tcp.h"

struct sockaddr_in tcp_socket_address(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
}

bool tcp_socket_set_control(int fd, const char *control)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, (socklen_t)strlen(control)) == 0;
}

/** @param name  out, [TCP_CONTROL_NAME_BYTES] */
static bool get_control(int fd, char *name)
{
    socklen_t bytes = TCP_CONTROL_NAME_BYTES - 1;
    memset(name, 0, TCP_CONTROL_NAME_BYTES);
    return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0;
}

bool tcp_socket_has_control(int fd, const char *control)
{
    char got[TCP_CONTROL_NAME_BYTES];
    return get_control(fd, got) && strcmp(got, control) == 0;
}

void tcp_socket_check_control(int fd, const char *want, const char *who)
{
    char got[TCP_CONTROL_NAME_BYTES];
    CHECK(get_control(fd, got) && strcmp(got, want) == 0, "%s has %s, not %s", who, got, want);
}
