/* SPDX-License-Identifier: Apache-2.0 */
/** Sockets and their congestion control, for the tests of it. */
#ifndef WRING_TESTS_TCP_SOCKET_H
#define WRING_TESTS_TCP_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>

/** Port 0 of an IPv4 address. */
struct sockaddr_in tcp_socket_address(const char *text);

/** @return false with errno, where it is a module that is not loaded, or not for everybody */
bool tcp_socket_set_control(int fd, const char *control);

bool tcp_socket_has_control(int fd, const char *control);

/** Check which one a socket has. @param who  for the message */
void tcp_socket_check_control(int fd, const char *want, const char *who);

#endif
