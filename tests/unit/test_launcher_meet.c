/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 of a launched job tells, and what the others make of it. */
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/made_exchange.h"

static struct made_exchange made;

static enum wring_status meet(const char *const *settings, uint32_t rank,
                              struct wring_launcher_meeting *out)
{
    made_exchange_init(&made, settings);
    return made_exchange_meet(&made, rank, out);
}

/** By variables, as without a launcher's exchange. */
static enum wring_status meet_at_root(const char *const *settings, uint32_t rank,
                                      struct wring_launcher_meeting *out)
{
    const struct wring_launched launched = {.name = "a test", .rank = rank, .size = 2};
    made_exchange_init(&made, settings);
    return wring_launcher_meet(&made.config, &made.log, &launched, 0, out);
}

/** An exchange carries no spaces: what is told has none, and has all ports. */
static void all_ranks_meet_at_the_same_whole_root(void)
{
    static const struct {
        const char *root, *ports, *want;
    } cases[] = {
        {"WRING_ROOT=h:1", "WRING_PORTS=", "h:1"},
        {"WRING_ROOT=h:1, h:2", "WRING_PORTS=", "h:1,h:2"},
        {"WRING_ROOT= h:1 ,\th:2 ", "WRING_PORTS=", "h:1,h:2"},
        {"WRING_ROOT=h", "WRING_PORTS=4000-4010", "h:4000"},
        {"WRING_ROOT=h, [fd00::1] , h:7", "WRING_PORTS=4000-4010", "h:4000,[fd00::1]:4000,h:7"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const settings[] = {cases[i].root, cases[i].ports, NULL};
        struct wring_launcher_meeting meeting;
        for (uint32_t rank = 0; rank < 2; rank++) {
            enum wring_status status = meet(settings, rank, &meeting);
            CHECK(status == WRING_OK && strcmp(meeting.root, cases[i].want) == 0,
                  "'%s' told: rank %u meets at '%s', %s", cases[i].root, rank, meeting.root,
                  made.lines.text);
            status = meet_at_root(settings, rank, &meeting);
            CHECK(status == WRING_OK && strcmp(meeting.root, cases[i].want) == 0,
                  "'%s': rank %u meets at '%s', %s", cases[i].root, rank, meeting.root,
                  made.lines.text);
        }
        CHECK(strpbrk(made_told, " \t;=") == NULL, "told: %s", made_told);
    }
}

static void what_cannot_be_told_is_refused(void)
{
    static char long_root[400] = "WRING_ROOT=", long_by_ports[320] = "WRING_ROOT=";
    static const struct {
        const char *root, *says;
    } cases[] = {
        {"WRING_ROOT= ", "needs host:port"},
        {"WRING_ROOT=h:1 h:2", "WRING_ROOT=h:1 h:2: needs host:port"},
        {"WRING_ROOT=h:1|x", "needs host:port"},
        {"WRING_ROOT=a=h:1", "needs host:port"},
        {long_root, "longer than the 299 bytes that PMI-9 carries"},
        {long_by_ports, "longer than the 299 bytes that PMI-9 carries"},
    };
    memset(long_root + 11, 'h', 300);
    memset(long_by_ports + 11, 'h', 296);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const settings[] = {cases[i].root, "WRING_PORTS=4000-4010", NULL};
        struct wring_launcher_meeting meeting;
        enum wring_status status = meet(settings, 0, &meeting);
        CHECK(status == WRING_ERR_INVALID && strstr(made.lines.text, cases[i].says) != NULL,
              "'%s': %s, %s", cases[i].root, wring_status_text(status), made.lines.text);
        status = meet(settings, 1, &meeting); /* and the others need not wait */
        CHECK(status == WRING_ERR_PEER && strstr(made.lines.text, "rank 0 cannot meet") != NULL,
              "'%s': %s, %s", cases[i].root, wring_status_text(status), made.lines.text);
    }
}

/** A launcher may cut a text, or carry another program's. */
static void what_came_cut_is_said(void)
{
    static const struct {
        const char *told, *says;
        enum wring_status status;
    } cases[] = {
        {"", "does not understand", WRING_ERR_VERSION},
        {"wring1", "does not understand", WRING_ERR_VERSION},
        {"wring2|h:1|j|k", "does not understand", WRING_ERR_VERSION},
        {"wring1|h:1,", "came cut short, after 'h:1,'", WRING_ERR_FRAME},
        {"wring1|h:1|", "came cut short, after 'h:1'", WRING_ERR_FRAME},
        {"wring1|h:1|j", "came cut short", WRING_ERR_FRAME},
        {"wring1|h:1||k", "came cut short", WRING_ERR_FRAME},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wring_launcher_meeting meeting;
        strcpy(made_told, cases[i].told);
        enum wring_status status = meet((const char *const[]){NULL}, 1, &meeting);
        CHECK(status == cases[i].status && strstr(made.lines.text, cases[i].says) != NULL,
              "'%s': %s, %s", cases[i].told, wring_status_text(status), made.lines.text);
    }
}

/** What others cannot dial is not told to them. */
static void rank_0_listens_at_one_address(void)
{
    static const struct {
        const char *setting, *says;
    } bad[] = {
        {"WRING_BIND=0.0.0.0", "no wildcard"},
        {"WRING_BIND=::", "no wildcard"},
        {"WRING_BIND=::ffff:0.0.0.0", "no wildcard"},
        {"WRING_BIND=0", "no wildcard"},
        {"WRING_BIND=224.0.0.1", "no multicast"},
        {"WRING_BIND=ff02::1", "no multicast"},
        {"WRING_BIND=nosuch", "an address of this host"},
    };
    struct wring_launcher_meeting meeting;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        enum wring_status status = meet((const char *const[]){bad[i].setting, NULL}, 0, &meeting);
        CHECK(status == WRING_ERR_ADDRESS && meeting.root_fd < 0 &&
                  strstr(made.lines.text, bad[i].setting) != NULL &&
                  strstr(made.lines.text, bad[i].says) != NULL,
              "%s: %s, %s", bad[i].setting, wring_status_text(status), made.lines.text);
        CHECK(strcmp(made_told, "wring1|failed") == 0, "%s: told %s", bad[i].setting, made_told);
    }
    enum wring_status status =
        meet((const char *const[]){"WRING_BIND=127.0.0.1", NULL}, 0, &meeting);
    CHECK(status == WRING_OK && strncmp(meeting.root, "127.0.0.1:", 10) == 0, "%s: %s, %s",
          wring_status_text(status), meeting.root, made.lines.text);
    close(meeting.root_fd);
}

/** Others are told of a given socket by WRING_ROOT alone. */
static void given_sockets_go_with_a_root(void)
{
    const char *const with_root[] = {"WRING_ROOT=127.0.0.1:5", "WRING_ROOT_FD=900", NULL};
    const char *const without[] = {"WRING_ROOT_FD=900", NULL};
    struct wring_launcher_meeting meeting;
    enum wring_status status = meet(with_root, 0, &meeting);
    CHECK(status == WRING_OK && meeting.root_fd == 900 && meeting.root_fd_is_given, "%s: %d",
          wring_status_text(status), meeting.root_fd);
    status = meet(with_root, 1, &meeting);
    CHECK(status == WRING_OK && meeting.root_fd == -1, "%s: %d", wring_status_text(status),
          meeting.root_fd);
    status = meet(without, 0, &meeting);
    CHECK(status == WRING_OK && meeting.root_fd >= 0 && !meeting.root_fd_is_given, "%s: %d",
          wring_status_text(status), meeting.root_fd);
    CHECK(strstr(made.lines.text, "WRING_ROOT_FD=900 is not used") != NULL, "said: %s",
          made.lines.text);
    close(meeting.root_fd);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"all ranks meet at the same whole root", all_ranks_meet_at_the_same_whole_root},
        {"what cannot be told is refused", what_cannot_be_told_is_refused},
        {"what came cut is said", what_came_cut_is_said},
        {"rank 0 listens at one address", rank_0_listens_at_one_address},
        {"given sockets go with a root", given_sockets_go_with_a_root},
        {0},
    };
    return wring_test_main(argc, argv, cases);
}
