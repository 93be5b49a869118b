/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"
#include "base/cpu.h"
#include "tests/lib/test.h"
#include "tests/unit/comma_locale.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

static char last_line[1024];

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module;
    snprintf(last_line, sizeof(last_line), "%s", text);
}

static const struct wring_log quiet = {keep_line, NULL, WRING_LOG_WARN};

static void defaults_parse(void)
{
    struct wring_config config;
    REQUIRE(wring_config_load(&config, &quiet) == WRING_OK, "%s", last_line);
    CHECK(config.rank == -1, "rank %lld", (long long)config.rank);
    CHECK(config.chunk_bytes == 256 * 1024, "%llu", (unsigned long long)config.chunk_bytes);
    CHECK(!wring_config_given(&config, "WRING_CHUNK_BYTES"), "a default that somebody has set");
    CHECK(config.heartbeat_ns == 1000000000ull, "%llu", (unsigned long long)config.heartbeat_ns);
    CHECK(config.spin_ns == 20000, "%llu", (unsigned long long)config.spin_ns);
    CHECK(strcmp(config.progress, "thread") == 0, "%s", config.progress);
}

static void suffixes_scale(void)
{
    struct wring_config config;
    REQUIRE(wring_config_load(&config, &quiet) == WRING_OK, "%s", last_line);
    CHECK(wring_config_set(&config, &quiet, "WRING_CHUNK_BYTES", "1M") == WRING_OK, "1M");
    CHECK(config.chunk_bytes == 1 << 20, "%llu", (unsigned long long)config.chunk_bytes);
    CHECK(wring_config_given(&config, "WRING_CHUNK_BYTES") &&
              !wring_config_given(&config, "WRING_EXECUTOR") &&
              !wring_config_given(&config, "WRING_NOTHING"),
          "who was set");
    CHECK(wring_config_set(&config, &quiet, "WRING_HEARTBEAT", "250ms") == WRING_OK, "250ms");
    CHECK(config.heartbeat_ns == 250000000ull, "%llu", (unsigned long long)config.heartbeat_ns);
}

static void bad_values_name_value_and_range(void)
{
    static const char *const bad[][2] = {
        {"WRING_CHUNK_BYTES", "1"},    {"WRING_CHUNK_BYTES", "12q"},
        {"WRING_CHUNK_BYTES", ""},     {"WRING_CHUNK_BYTES", "nan"},
        {"WRING_RANK", "1.5"},         {"WRING_RANK", "99999999"},
        {"WRING_PROGRESS", "threads"}, {"WRING_PROGRESS", "thread|caller"},
        {"WRING_PEER_TIMEOUT", "-1"},  {"WRING_NO_SUCH_VARIABLE", "1"},
        {"WRING_VERBS_RETRIES", "7"},  {"WRING_VERBS_RNR_RETRIES", "7"},
        {"WRING_VERBS_TIMEOUT", "0"},  {"WRING_VERBS_PKEY", "0x10000"},
        {"WRING_VERBS_MTU", "1500"},   {"WRING_VERBS_QPS", "0"},
    };
    struct wring_config config;
    REQUIRE(wring_config_load(&config, &quiet) == WRING_OK, "%s", last_line);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        last_line[0] = '\0';
        enum wring_status status = wring_config_set(&config, &quiet, bad[i][0], bad[i][1]);
        CHECK(status == WRING_ERR_INVALID, "%s=%s accepted", bad[i][0], bad[i][1]);
        CHECK(strstr(last_line, bad[i][0]) != NULL, "no name in '%s'", last_line);
    }
}

static void unknown_environment_warns(void)
{
    struct wring_config config;
    setenv("WRING_CHUNK_BYTE", "1", 1);
    last_line[0] = '\0';
    CHECK(wring_config_load(&config, &quiet) == WRING_OK, "load");
    CHECK(strstr(last_line, "WRING_CHUNK_BYTE is not") != NULL, "'%s'", last_line);
    unsetenv("WRING_CHUNK_BYTE");
    setenv("WRING_TEST_TRACES", "/nowhere", 1);
    last_line[0] = '\0';
    CHECK(wring_config_load(&config, &quiet) == WRING_OK, "load");
    CHECK(last_line[0] == '\0', "'%s'", last_line);
    unsetenv("WRING_TEST_TRACES");
    setenv("WRING_LIBRARY", "/nowhere", 1); /* a drop-in's, no misspelt one */
    CHECK(wring_config_load(&config, &quiet) == WRING_OK, "load");
    CHECK(last_line[0] == '\0', "'%s'", last_line);
    unsetenv("WRING_LIBRARY");
    setenv("WRING_LIBRARIES", "/nowhere", 1);
    CHECK(wring_config_load(&config, &quiet) == WRING_OK, "load");
    CHECK(strstr(last_line, "WRING_LIBRARIES is not") != NULL, "'%s'", last_line);
    unsetenv("WRING_LIBRARIES");
}

static void numbers_have_a_point_in_every_locale(void)
{
    struct wring_config config;
    char text[WRING_CONFIG_TEXT];
    size_t count;
    const struct wring_config_var *vars = wring_config_vars(&count);

    REQUIRE(wring_config_load(&config, &quiet) == WRING_OK, "%s", last_line);
    REQUIRE(comma_locale_enter(), "no locale with a decimal comma could be had");
    snprintf(text, sizeof(text), "%.1f", 0.5);
    CHECK(strcmp(text, "0,5") == 0, "the locale is not in force: %s", text);

    CHECK(wring_config_set(&config, &quiet, "WRING_HEARTBEAT", "0.25") == WRING_OK, "%s",
          last_line);
    CHECK(config.heartbeat_ns == 250000000ull, "%llu", (unsigned long long)config.heartbeat_ns);
    CHECK(wring_config_set(&config, &quiet, "WRING_CHUNK_BYTES", "0.5m") == WRING_OK, "%s",
          last_line);
    CHECK(config.chunk_bytes == 1 << 19, "%llu", (unsigned long long)config.chunk_bytes);
    CHECK(wring_config_set(&config, &quiet, "WRING_HEARTBEAT", "0,25") == WRING_ERR_INVALID,
          "a decimal comma was taken");
    CHECK(strstr(last_line, "from 0.001 to 3600 s") != NULL, "'%s'", last_line);
    for (size_t i = 0; i < count; i++)
        if (strcmp(vars[i].name, "WRING_HEARTBEAT") == 0) {
            wring_config_show(&config, &vars[i], text, sizeof(text));
            CHECK(strcmp(text, "0.25") == 0, "shown as %s", text);
        }
    comma_locale_leave();
}

static void tier_of_another_processor_is_warned_about(void)
{
    static const char *const names[] = {"scalar", "avx2", "avx512", "vbmi2", "neon"};
    struct wring_config config;
    unsigned warned = 0;

    REQUIRE(wring_config_load(&config, &quiet) == WRING_OK, "%s", last_line);
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        last_line[0] = '\0';
        CHECK(wring_config_set(&config, &quiet, "WRING_CPU", names[tier]) == WRING_OK, "%s",
              names[tier]);
        bool has = wring_cpu_has((enum wring_cpu_tier)tier);
        CHECK(has == (last_line[0] == '\0'), "%s: '%s'", names[tier], last_line);
        CHECK(has || strstr(last_line, " ones run instead") != NULL, "'%s'", last_line);
        warned += !has;
    }
    CHECK(warned > 0, "a processor with both AVX-512 and NEON?");
    last_line[0] = '\0';
    CHECK(wring_config_set(&config, &quiet, "WRING_CPU", "best") == WRING_OK, "best");
    CHECK(last_line[0] == '\0', "'%s'", last_line);
}

static void key_is_not_shown(void)
{
    struct wring_config config;
    size_t count;
    const struct wring_config_var *vars = wring_config_vars(&count);
    char text[WRING_CONFIG_TEXT];
    REQUIRE(wring_config_load(&config, &quiet) == WRING_OK, "%s", last_line);
    wring_config_set(&config, &quiet, "WRING_KEY", "secret");
    for (size_t i = 0; i < count; i++) {
        wring_config_show(&config, &vars[i], text, sizeof(text));
        CHECK(strstr(text, "secret") == NULL, "%s shows the key", vars[i].name);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"defaults_parse", defaults_parse},
        {"suffixes_scale", suffixes_scale},
        {"bad_values_name_value_and_range", bad_values_name_value_and_range},
        {"unknown_environment_warns", unknown_environment_warns},
        {"numbers_have_a_point_in_every_locale", numbers_have_a_point_in_every_locale},
        {"tier_of_another_processor_is_warned_about", tier_of_another_processor_is_warned_about},
        {"key_is_not_shown", key_is_not_shown},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
