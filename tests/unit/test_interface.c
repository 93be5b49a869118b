/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of interfaces and ranges of ports: what they name, and what comes of naming nothing. */
#include "transport/interface.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "base/config.h"
#include "tests/lib/test.h"
#include "transport/door.h"
#include <wring/provider.h>

static void lists_match_by_prefix_exactly_or_all_but(void)
{
    static const struct {
        const char *list, *name;
        int want;
    } cases[] = {
        {"eth", "eth0", 0},
        {"eth", "ethernet", 0},
        {"eth0", "eth", -1},
        {"ib,eth", "eth1", 1},
        {"ib,eth", "ib0", 0},
        {"ib,eth", "lo", -1},
        {"=eth0", "eth0", 0},
        {"=eth0", "eth01", -1},
        {"=eth1,eth0", "eth0", 1},
        {"=eth", "eth0", -1},
        {"^docker", "eth0", 0},
        {"^docker", "docker0", -1},
        {"^docker,veth", "veth1", -1},
        {"^=eth0", "eth0", -1},
        {"^=eth0", "eth01", 0},
        {"", "eth0", -1},
        {",", "eth0", -1},
        {"^", "eth0", 0},
        {"=", "eth0", -1},
        {",eth", "eth0", 1},
        {"ib, eth", "eth0", 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int got = wring_interface_match(cases[i].list, cases[i].name);
        CHECK(got == cases[i].want, "%s, %s: %d, not %d", cases[i].list, cases[i].name, got,
              cases[i].want);
    }
}

static void malformed_lists_are_told(void)
{
    static const char *const good[] = {"eth", "ib, eth", "=eth0,eth1", "^=docker0", "^lo,veth"};
    static const char *const bad[] = {"",    ",",    "^",     "=",    "^=",       "eth,",
                                      ",ib", "a,,b", "^a,^b", "a,=b", "eth0 eth1"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        CHECK(wring_interface_list_fault(good[i]) == NULL, "%s: %s", good[i],
              wring_interface_list_fault(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(wring_interface_list_fault(bad[i]) != NULL, "'%s' is taken", bad[i]);
}

#define UP (IFF_UP | IFF_RUNNING)

static struct {
    const char *name, *address;
    unsigned flags;
    struct ifaddrs entry;
    struct sockaddr_in6 bytes;
} host[] = {
    {.name = "lo", .address = "127.0.0.1", .flags = UP | IFF_LOOPBACK},
    {.name = "eth0", .address = "fe80::1", .flags = UP},
    {.name = "eth0", .address = "2001:db8::5", .flags = UP},
    {.name = "eth0", .address = "192.0.2.5", .flags = UP},
    {.name = "eth1", .address = "198.51.100.5", .flags = IFF_UP}, /* no cable */
    {.name = "docker0", .address = "203.0.113.1", .flags = UP},
    {.name = "ib0", .address = NULL, .flags = UP}, /* has none */
    {.name = "ib1", .address = "2001:db8::6", .flags = UP},
};
#define ADDRESSES (sizeof(host) / sizeof(host[0]))

static const struct ifaddrs *make_host(void)
{
    for (size_t i = 0; i < ADDRESSES; i++) {
        struct ifaddrs *entry = &host[i].entry;
        struct sockaddr_in *v4 = (struct sockaddr_in *)&host[i].bytes;
        entry->ifa_next = i + 1 < ADDRESSES ? &host[i + 1].entry : NULL;
        entry->ifa_name = (char *)(uintptr_t)host[i].name;
        entry->ifa_flags = host[i].flags;
        entry->ifa_addr = host[i].address != NULL ? (struct sockaddr *)&host[i].bytes : NULL;
        if (host[i].address == NULL)
            continue;
        host[i].bytes.sin6_family = AF_INET6;
        if (inet_pton(AF_INET6, host[i].address, &host[i].bytes.sin6_addr) == 1)
            continue;
        v4->sin_family = AF_INET;
        CHECK(inet_pton(AF_INET, host[i].address, &v4->sin_addr) == 1, "%s", host[i].address);
    }
    return &host[0].entry;
}

static void addresses_are_chosen(void)
{
    static const struct {
        const char *list, *like, *want;
    } cases[] = {
        {"eth", "", "192.0.2.5"},
        {"eth", "10.0.0.1", "192.0.2.5"},
        {"eth", "2001:db8::1", "2001:db8::5"},
        {"=eth0", "", "192.0.2.5"},
        {"=eth1", "", NULL},
        {"^docker", "", "192.0.2.5"},
        {"^eth", "", "203.0.113.1"},
        {"^eth,docker", "", "2001:db8::6"},
        {"^eth,docker,ib", "", NULL},
        {"lo", "", "127.0.0.1"},
        {"=ib0", "", NULL},
        {"ib", "192.0.2.1", "2001:db8::6"},
        {"docker,eth", "", "203.0.113.1"},
        {"wlan", "", NULL},
    };
    const struct ifaddrs *all = make_host();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[WRING_INTERFACE_ADDRESS] = "";
        const char *name = wring_interface_choose(all, cases[i].list, cases[i].like, text);
        if (cases[i].want == NULL)
            CHECK(name == NULL, "%s: %s", cases[i].list, text);
        else
            CHECK(name != NULL && strcmp(text, cases[i].want) == 0, "%s like %s: %s, not %s",
                  cases[i].list, cases[i].like, text, cases[i].want);
    }
}

struct heard {
    char text[512];
};

static void hear(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct heard *heard = arg;
    (void)level, (void)module;
    snprintf(heard->text, sizeof(heard->text), "%s", text);
}

static void this_host_has_loopback(void)
{
    struct heard heard = {""};
    const struct wring_log log = {hear, &heard, WRING_LOG_WARN};
    char text[WRING_INTERFACE_ADDRESS] = "";
    CHECK(wring_interface_find(&log, "lo", "", text) == WRING_OK, "%s", heard.text);
    CHECK(strcmp(text, "127.0.0.1") == 0, "%s", text);
    CHECK(wring_interface_find(&log, "=nosuch7", "", text) == WRING_ERR_ADDRESS, "found");
    CHECK(strstr(heard.text, "WRING_IFACE==nosuch7") != NULL &&
              strstr(heard.text, "there are") != NULL && strstr(heard.text, "127.0.0.1") != NULL,
          "%s", heard.text);
}

static void ranges_are_read(void)
{
    static const struct {
        const char *text;
        bool good;
        uint16_t first, last;
    } cases[] = {
        {"", true, 0, 0},
        {"5555", true, 5555, 5555},
        {"40000-40100", true, 40000, 40100},
        {"65535-65535", true, 65535, 65535},
        {"40100-40000", false, 0, 0},
        {"0-10", false, 0, 0},
        {"1-65536", false, 0, 0},
        {"99999999999999999999", false, 0, 0},
        {"-5", false, 0, 0},
        {"5-", false, 0, 0},
        {"5-6-7", false, 0, 0},
        {" 5", false, 0, 0},
        {"5-+6", false, 0, 0},
        {"ssh", false, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wring_ports ports;
        bool good = wring_ports_read(NULL, cases[i].text, &ports) == WRING_OK;
        CHECK(good == cases[i].good, "'%s': %d", cases[i].text, good);
        CHECK(!good || (ports.first == cases[i].first && ports.last == cases[i].last),
              "'%s': %u-%u", cases[i].text, ports.first, ports.last);
    }
}

static void roots_get_the_first_port(void)
{
    static const struct {
        const char *root, *want;
    } cases[] = {
        {"192.0.2.1", "192.0.2.1:40000"},
        {"192.0.2.1:5555", "192.0.2.1:5555"},
        {"node7", "node7:40000"},
        {"[2001:db8::1]", "[2001:db8::1]:40000"},
        {"", ""},
        {"[2001:db8::1]:5555", "[2001:db8::1]:5555"},
        {"node7,[fe80::1%eth0],192.0.2.1:5555,node8",
         "node7:40000,[fe80::1%eth0]:40000,192.0.2.1:5555,node8:40000"},
        {"node7,", "node7:40000,"},
        {" node7:5 ,\tnode8 , node9:5 ", "node7:5,node8:40000,node9:5"},
        {" ", ""},
        {",,", ",,"},
    };
    const struct wring_ports range = {40000, 40100}, any = {0, 0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char root[80];
        snprintf(root, sizeof(root), "%s", cases[i].root);
        wring_ports_complete(&any, root, sizeof(root));
        CHECK(strcmp(root, cases[i].root) == 0 || strpbrk(cases[i].root, " \t") != NULL,
              "%s became %s", cases[i].root, root);
        CHECK(strpbrk(root, " \t") == NULL, "%s became '%s'", cases[i].root, root);
        wring_ports_complete(&range, root, sizeof(root));
        CHECK(strcmp(root, cases[i].want) == 0, "%s became %s", cases[i].root, root);
    }
}

static enum wring_status listen_with(const struct wring_config *config, const struct wring_log *log,
                                     struct wring_provider **out, uint16_t *port)
{
    const struct wring_provider_params params = {.log = log, .config = config};
    uint8_t address[WRING_ADDRESS_MAX];
    size_t bytes;
    enum wring_status status = wring_provider_find("tcp")->open(&params, out);
    if (status == WRING_OK) {
        status = (*out)->ops->listen(*out, address, &bytes);
        *port = (uint16_t)(address[2] | address[3] << 8);
    }
    return status;
}

/** A range of two ports that nobody here uses now, by asking the system. */
static uint16_t find_two_ports(const struct wring_log *log)
{
    for (int i = 0; i < 100; i++) {
        struct wring_provider *a = NULL, *b = NULL;
        struct wring_config config;
        uint16_t first = 0, next = 0;
        char text[32];
        wring_config_load(&config, log);
        enum wring_status status = listen_with(&config, log, &a, &first);
        snprintf(text, sizeof(text), "%u", first + 1u);
        wring_config_set(&config, NULL, "WRING_PORTS", text);
        if (status == WRING_OK && first < UINT16_MAX)
            status = listen_with(&config, NULL, &b, &next);
        if (a != NULL)
            a->ops->close(a);
        if (b != NULL)
            b->ops->close(b);
        if (status == WRING_OK && next == first + 1)
            return first;
    }
    return 0;
}

static void close_three(struct wring_provider *tcp[3])
{
    for (int i = 0; i < 3; i++)
        if (tcp[i] != NULL)
            tcp[i]->ops->close(tcp[i]);
}

static void tcp_listens_within_the_range(void)
{
    struct heard heard = {""};
    const struct wring_log log = {hear, &heard, WRING_LOG_WARN};
    struct wring_config config;
    struct wring_provider *tcp[3] = {NULL};
    char range[32];
    uint16_t ports[3] = {0}, first;

    for (int i = 0; i < 100; i++) { /* another program may take a port that was found */
        first = find_two_ports(&log);
        REQUIRE(first != 0, "no two free ports: %s", heard.text);
        snprintf(range, sizeof(range), "%u-%u", first, first + 1u);
        wring_config_load(&config, &log);
        REQUIRE(wring_config_set(&config, &log, "WRING_PORTS", range) == WRING_OK, "%s",
                heard.text);
        if (listen_with(&config, &log, &tcp[0], &ports[0]) == WRING_OK &&
            listen_with(&config, &log, &tcp[1], &ports[1]) == WRING_OK)
            break;
        close_three(tcp);
        tcp[0] = tcp[1] = NULL;
    }
    heard.text[0] = '\0';
    CHECK(ports[0] == first && ports[1] == first + 1, "%u and %u of %s", ports[0], ports[1], range);
    CHECK(listen_with(&config, &log, &tcp[2], &ports[2]) == WRING_ERR_ADDRESS, "a third one");
    CHECK(strstr(heard.text, "widen WRING_PORTS") != NULL, "%s", heard.text);
    close_three(tcp);

    wring_config_set(&config, &log, "WRING_PORTS", "9-1");
    const struct wring_provider_params params = {.log = &log, .config = &config};
    CHECK(wring_provider_find("tcp")->open(&params, &tcp[0]) == WRING_ERR_INVALID, "9-1 taken");
    CHECK(strstr(heard.text, "WRING_PORTS=9-1: needs first-last") != NULL, "%s", heard.text);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"malformed_lists_are_told", malformed_lists_are_told},
        {"lists_match_by_prefix_exactly_or_all_but", lists_match_by_prefix_exactly_or_all_but},
        {"addresses_are_chosen", addresses_are_chosen},
        {"this_host_has_loopback", this_host_has_loopback},
        {"ranges_are_read", ranges_are_read},
        {"roots_get_the_first_port", roots_get_the_first_port},
        {"tcp_listens_within_the_range", tcp_listens_within_the_range},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
