/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/mock/one_pair.h"

#include "base/config.h"
#include "base/log.h"
#include "transport/providers/providers.h"

#define REGION_BYTES (1 << 20)

static struct wring_config config;
static struct wring_log log_said;

static void hear(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct one_pair *pair = arg;
    size_t n = strlen(pair->said);
    (void)level, (void)module;
    snprintf(pair->said + n, sizeof(pair->said) - n, "%s\n", text);
}

static enum wring_status open_with_settings(const struct wring_provider_params *params,
                                            struct wring_provider **out)
{
    struct wring_provider_params mine = *params;
    mine.config = &config;
    mine.log = &log_said;
    return wring_provider_verbs.open(&mine, out);
}

bool one_pair_open(struct one_pair *pair, const char *const *settings)
{
    static const struct wring_provider_driver driver = {"verbs", open_with_settings};
    *pair = (struct one_pair){.said = ""};
    log_said = (struct wring_log){hear, pair, WRING_LOG_INFO};
    if (wring_config_load(&config, NULL) != WRING_OK)
        return false;
    for (; *settings != NULL; settings += 2)
        if (wring_config_set(&config, NULL, settings[0], settings[1]) != WRING_OK)
            return false;
    ends_use(&driver);
    return ends_open(&pair->a, &pair->b, REGION_BYTES, 16);
}

void one_pair_close(struct one_pair *pair)
{
    ends_close(&pair->a, &pair->b);
}

unsigned one_pair_lines(const struct one_pair *pair, const char *text, char *line, size_t bytes)
{
    unsigned n = 0;
    line[0] = '\0';
    for (const char *at = pair->said; *at != '\0';) {
        const char *end = strchr(at, '\n');
        int length = (int)(end - at);
        char one[2048];
        snprintf(one, sizeof(one), "%.*s", length, at);
        if (strstr(one, text) != NULL) {
            snprintf(line, bytes, "%s", one);
            n++;
        }
        at = end + 1;
    }
    return n;
}
