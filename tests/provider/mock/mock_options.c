/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/provider/mock/mock_inside.h"

#define WORD_MAX 256

static const struct mock_options defaults = {.devices = 2, .ports = 1, .memlock = UINT64_MAX};

#define OF_DEVICE(member) offsetof(struct mock_options, device[0].member)

/* clang-format off */
static const struct {
    const char *name;
    size_t offset;
    unsigned preset, min, max;
} of_devices[] = {
    {"link",    OF_DEVICE(link_layer),   IBV_LINK_LAYER_ETHERNET, 1, 2},
    {"mtu",     OF_DEVICE(mtu),          4096,    256, 4096},
    {"speed",   OF_DEVICE(speed),        100,     10,  400},
    {"inline",  OF_DEVICE(inline_bytes), 256,     0,   MOCK_INLINE_MAX},
    {"depth",   OF_DEVICE(depth),        MOCK_WR_MAX, 1, MOCK_WR_MAX},
    {"sges",    OF_DEVICE(sges),         MOCK_SGES, 1, MOCK_SGES},
    {"cqe",     OF_DEVICE(cqe),          MOCK_CQE_MAX, 1, MOCK_CQE_MAX},
    {"message", OF_DEVICE(message),      1u << 30, 1,  1u << 31},
    {"wr",      OF_DEVICE(wr),           1,       0,   1},
    {"cqex",    OF_DEVICE(cqex),         1,       0,   1},
    {"resize",  OF_DEVICE(resize),       1,       0,   1},
    {"dmabuf",  OF_DEVICE(dmabuf),       1,       0,   1},
    {"relaxed", OF_DEVICE(relaxed),      1,       0,   1},
    {"late",    OF_DEVICE(late),         0,       0,   1},
    {"peermem", OF_DEVICE(peermem),      0,       0,   1},
};
static const struct {
    const char *name;
    size_t offset;
    unsigned min, max;
} of_process[] = {
    {"host",    offsetof(struct mock_options, host),      0, MOCK_HOSTS - 1},
    {"devices", offsetof(struct mock_options, devices),   0, MOCK_DEVICES},
    {"ports",   offsetof(struct mock_options, ports),     1, MOCK_PORTS},
    {"delay",   offsetof(struct mock_options, delay_us),  0, 10000000},
    {"jitter",  offsetof(struct mock_options, jitter_us), 0, 10000000},
};
/* clang-format on */

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void set_number(struct mock_options *options, size_t offset, unsigned value)
{
    memcpy((char *)options + offset, &value, sizeof(value));
}

static bool read_number(const char *text, unsigned min, unsigned max, unsigned *out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    *out = (unsigned)value;
    return end != text && *end == '\0' && value >= min && value <= max;
}

/** NAME or NAME@N, of devices. @param device  -1: all */
static bool set_of_devices(struct mock_options *options, const char *name, int device,
                           const char *value)
{
    unsigned number;
    if (strcmp(name, "link") == 0)
        value = strcmp(value, "ib") == 0 ? "1" : strcmp(value, "eth") == 0 ? "2" : "";
    for (size_t i = 0; i < COUNT(of_devices); i++) {
        if (strcmp(of_devices[i].name, name) != 0)
            continue;
        if (!read_number(value, of_devices[i].min, of_devices[i].max, &number))
            return false;
        for (int d = 0; d < MOCK_DEVICES; d++)
            if (device < 0 || device == d)
                set_number(options, of_devices[i].offset + (size_t)d * sizeof(options->device[0]),
                           number);
        return true;
    }
    return false;
}

static bool set_of_process(struct mock_options *options, const char *name, const char *value)
{
    unsigned number;
    if (strcmp(name, "net") == 0)
        return snprintf(options->net, sizeof(options->net), "%s", value) <
               (int)sizeof(options->net);
    if (strcmp(name, "memlock") == 0) {
        char *end;
        options->memlock = strtoull(value, &end, 10);
        return end != value && *end == '\0';
    }
    for (size_t i = 0; i < COUNT(of_process); i++)
        if (strcmp(of_process[i].name, name) == 0 &&
            read_number(value, of_process[i].min, of_process[i].max, &number)) {
            set_number(options, of_process[i].offset, number);
            return true;
        }
    return false;
}

static bool set_word(struct mock_options *options, char *word)
{
    int device = -1;
    char *value = strchr(word, '=');
    if (value == NULL)
        return false;
    *value++ = '\0';
    char *at = strchr(word, '@');
    if (at != NULL) {
        *at = '\0';
        device = at[1] - '0';
        if (device < 0 || device >= MOCK_DEVICES || at[2] != '\0')
            return false;
    }
    return set_of_devices(options, word, device, value) ||
           (device < 0 && set_of_process(options, word, value));
}

bool mock_options_read(const char *text, struct mock_options *out)
{
    char copy[WORD_MAX], *rest = copy, *word;
    *out = defaults;
    for (size_t i = 0; i < COUNT(of_devices); i++)
        for (size_t d = 0; d < MOCK_DEVICES; d++)
            set_number(out, of_devices[i].offset + d * sizeof(out->device[0]),
                       of_devices[i].preset);
    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy)) {
        fprintf(stderr, "mock verbs: MOCKVERBS is too long\n");
        return false;
    }
    while ((word = strsep(&rest, ",")) != NULL) {
        char shown[WORD_MAX];
        snprintf(shown, sizeof(shown), "%s", word);
        if (word[0] != '\0' && !set_word(out, word)) {
            fprintf(stderr, "mock verbs: MOCKVERBS: '%s' is not understood\n", shown);
            return false;
        }
    }
    return true;
}
