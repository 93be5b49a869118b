/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Settings: any NAME=VALUE is refused with a line of log, or is shown as something that sets the
 * same again. Input: lines of NAME=VALUE.
 */
#include "base/config.h"
#include "tests/fuzz/fuzz.h"

static void count(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)level, (void)module;
    FUZZ_CHECK(text[0] != '\0', "an empty line");
    ++*(unsigned *)arg;
}

static void set_defaults(struct wring_config *config)
{
    size_t n;
    const struct wring_config_var *vars = wring_config_vars(&n);
    memset(config, 0, sizeof(*config));
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK(wring_config_set(config, NULL, vars[i].name, vars[i].fallback) == WRING_OK,
                   "%s: its default is refused", vars[i].name);
}

static const struct wring_config_var *find(const char *name)
{
    size_t n;
    const struct wring_config_var *vars = wring_config_vars(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(vars[i].name, name) == 0)
            return &vars[i];
    return NULL;
}

/** What is shown sets the same, in as many digits as it shows. */
static void check_shown(const struct wring_config *config, const struct wring_config_var *var)
{
    struct wring_config again;
    char shown[WRING_CONFIG_ROOT], twice[WRING_CONFIG_ROOT];

    wring_config_show(config, var, shown, sizeof(shown));
    if (var->secret)
        return;
    set_defaults(&again);
    FUZZ_CHECK(wring_config_set(&again, NULL, var->name, shown) == WRING_OK,
               "%s=%s is shown, and refused", var->name, shown);
    wring_config_show(&again, var, twice, sizeof(twice));
    FUZZ_CHECK(strcmp(shown, twice) == 0, "%s=%s became %s", var->name, shown, twice);
}

static void set(struct wring_config *config, const char *name, const char *value)
{
    unsigned lines = 0;
    const struct wring_log log = {count, &lines, WRING_LOG_DEBUG};
    const struct wring_config before = *config;

    enum wring_status status = wring_config_set(config, &log, name, value);
    FUZZ_CHECK(status == WRING_OK || status == WRING_ERR_INVALID, "%s: status %d", name, status);
    if (status == WRING_OK) {
        const struct wring_config_var *var = find(name);
        FUZZ_CHECK(var != NULL, "%s: no such variable, but set", name);
        check_shown(config, var);
    } else {
        FUZZ_CHECK(lines == 1, "%s: refused with %u lines", name, lines);
        FUZZ_CHECK(memcmp(config, &before, sizeof(before)) == 0, "%s: refused, but set", name);
    }
    wring_config_log_level(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wring_config config;
    char *text = fuzz_text(data, size), *rest = text, *line;

    set_defaults(&config);
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *value = strchr(line, '=');
        if (value == NULL)
            continue;
        *value++ = '\0';
        set(&config, line, value);
    }
    free(text);
    return 0;
}
