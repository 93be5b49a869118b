/* SPDX-License-Identifier: Apache-2.0 */
/* Who has to go where places are short; no sockets here. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "transport/door.h"

#define MS(n) ((uint64_t)(n)*WRING_NS_PER_MS)
#define NOW MS(100000)
#define SLOW MS(1000)
#define AGO(ms) (NOW - MS(ms))

static void the_oldest_silent_one_goes(void)
{
    const struct wring_door_guest guests[] = {
        {AGO(500), 1, false}, {AGO(100), 1, true}, {AGO(300), 1, true}, {AGO(200), 1, true}};
    CHECK(wring_door_choose(guests, 4, NOW, SLOW) == 2, "%d",
          wring_door_choose(guests, 4, NOW, SLOW));
}

static void those_just_come_may_yet_speak(void)
{
    const struct wring_door_guest guests[] = {
        {AGO(1), 1, true}, {AGO(500), 1, false}, {AGO(2), 1, true}};
    CHECK(wring_door_choose(guests, 3, NOW, SLOW) == -1, "somebody is sent away");
    CHECK(wring_door_choose(guests, 0, NOW, SLOW) == -1, "somebody of nobody");
}

static void those_who_speak_have_their_time(void)
{
    const struct wring_door_guest guests[] = {
        {AGO(1001), 1, false}, {AGO(2000), 1, false}, {AGO(1), 1, true}};
    CHECK(wring_door_choose(guests, 3, NOW, SLOW) == 1, "%d",
          wring_door_choose(guests, 3, NOW, SLOW));
}

/** One host that takes most places loses its own before it takes another's. */
static void crowds_of_one_host_go_first(void)
{
    struct wring_door_guest guests[100];
    for (unsigned i = 0; i < 100; i++)
        guests[i] = (struct wring_door_guest){AGO(50 + i % 7), 77, true};
    guests[13] = (struct wring_door_guest){AGO(900), 5, true}; /* silent, and oldest of all */
    for (unsigned turn = 0; turn < 97; turn++) {
        int gone = wring_door_choose(guests, 100, NOW, SLOW);
        REQUIRE(gone >= 0 && gone != 13, "turn %u: %d", turn, gone);
        guests[gone] = (struct wring_door_guest){NOW, 1000 + turn, true}; /* somebody new */
    }
}

static void ports_make_no_other_host(void)
{
    struct sockaddr_storage a = {0}, b = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&a, *other = (struct sockaddr_in *)&b;
    *v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = 1};
    *other = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = 2};
    v4->sin_addr.s_addr = other->sin_addr.s_addr = htonl(0x0a000001);
    CHECK(wring_door_origin(&a) == wring_door_origin(&b), "by port");
    other->sin_addr.s_addr = htonl(0x0a000002);
    CHECK(wring_door_origin(&a) != wring_door_origin(&b), "not by host");
}

static void shortages_name_their_remedy(void)
{
    char text[200];
    wring_door_shortage(EMFILE, 77, text, sizeof(text));
    CHECK(strstr(text, "ulimit -n") != NULL && strstr(text, "at least 77") != NULL, "%s", text);
    wring_door_shortage(ENFILE, 0, text, sizeof(text));
    CHECK(strstr(text, "fs.file-max") != NULL, "%s", text);
    wring_door_shortage(ENOBUFS, 0, text, sizeof(text));
    CHECK(strstr(text, "buffer") != NULL, "%s", text);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"the_oldest_silent_one_goes", the_oldest_silent_one_goes},
        {"those_just_come_may_yet_speak", those_just_come_may_yet_speak},
        {"those_who_speak_have_their_time", those_who_speak_have_their_time},
        {"crowds_of_one_host_go_first", crowds_of_one_host_go_first},
        {"ports_make_no_other_host", ports_make_no_other_host},
        {"shortages_name_their_remedy", shortages_name_their_remedy},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
