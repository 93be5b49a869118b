/* SPDX-License-Identifier: Apache-2.0 */
/** RDMA devices, for people. */
#include <string.h>

#include "tools/info/info.h"
#include "tools/table.h"

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static void add_number(struct wring_table *table, json_t *object, const char *key)
{
    json_t *number = json_object_get(object, key);
    if (json_is_integer(number))
        wring_table_cell(table, "%lld", (long long)json_integer_value(number));
    else if (json_is_number(number))
        wring_table_cell(table, "%g", json_number_value(number));
    else
        wring_table_cell(table, "%s", json_is_null(number) ? "unknown" : "");
}

static void add_name(struct wring_table *table, json_t *port)
{
    wring_table_cell(table, "%s:%lld", text_of(port, "device"),
                     (long long)json_integer_value(json_object_get(port, "port")));
}

static void show_ports(FILE *file, json_t *ports)
{
    static const struct wring_table_column columns[] = {
        {"port", WRING_ALIGN_LEFT},    {"link", WRING_ALIGN_LEFT}, {"state", WRING_ALIGN_LEFT},
        {"Gbit/s", WRING_ALIGN_RIGHT}, {"MTU", WRING_ALIGN_RIGHT}, {"place", WRING_ALIGN_LEFT},
        {"rail", WRING_ALIGN_LEFT},    {"why", WRING_ALIGN_LEFT},
    };
    struct wring_table *table = wring_table_create(columns, 8);
    json_t *port;
    size_t i;

    json_array_foreach(ports, i, port)
    {
        json_t *rail = json_object_get(port, "rail");
        add_name(table, port);
        wring_table_cell(table, "%s", text_of(port, "link"));
        wring_table_cell(table, "%s", text_of(port, "state"));
        add_number(table, port, "gbit");
        add_number(table, port, "mtu_bytes");
        wring_table_cell(table, "%s", text_of(port, "place"));
        if (json_is_integer(rail))
            wring_table_cell(table, "%lld", (long long)json_integer_value(rail));
        else
            wring_table_cell(table, "no");
        wring_table_cell(table, "%s", text_of(port, "why"));
    }
    wring_table_finish(table, file);
}

static void show_gids(FILE *file, json_t *ports)
{
    static const struct wring_table_column columns[] = {{"port", WRING_ALIGN_LEFT},
                                                        {"GID index", WRING_ALIGN_RIGHT},
                                                        {"type", WRING_ALIGN_LEFT},
                                                        {"address", WRING_ALIGN_LEFT}};
    struct wring_table *table = wring_table_create(columns, 4);
    json_t *port, *gid;
    size_t i, j;

    json_array_foreach(ports, i, port) json_array_foreach(json_object_get(port, "gids"), j, gid)
    {
        add_name(table, port);
        add_number(table, gid, "index");
        wring_table_cell(table, "%s", text_of(gid, "type"));
        wring_table_cell(table, "%s", text_of(gid, "address"));
    }
    wring_table_finish(table, file);
}

static void add_ability(struct wring_table *table, json_t *can, const char *key)
{
    wring_table_cell(table, "%s", json_is_true(json_object_get(can, key)) ? "yes" : "no");
}

/** A line for each device: its ports can do the same. */
static void show_abilities(FILE *file, json_t *ports)
{
    static const struct wring_table_column columns[] = {
        {"device", WRING_ALIGN_LEFT},        {"extended CQ", WRING_ALIGN_LEFT},
        {"ibv_wr_*", WRING_ALIGN_LEFT},      {"dma-buf", WRING_ALIGN_LEFT},
        {"inline bytes", WRING_ALIGN_RIGHT}, {"queue pairs", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 6);
    const char *last = "";
    json_t *port;
    size_t i;

    json_array_foreach(ports, i, port)
    {
        json_t *can = json_object_get(port, "abilities");
        if (can == NULL || strcmp(last, text_of(port, "device")) == 0)
            continue;
        last = text_of(port, "device");
        wring_table_cell(table, "%s", last);
        add_ability(table, can, "extended_cq");
        add_ability(table, can, "wr_calls");
        add_ability(table, can, "dmabuf");
        add_number(table, can, "inline_bytes");
        add_number(table, can, "max_queue_pairs");
    }
    wring_table_finish(table, file);
}

void wring_info_show_rdma(FILE *file, json_t *rdma)
{
    json_t *ports = json_object_get(rdma, "ports");
    const char *asked = text_of(rdma, "asked");

    if (json_array_size(ports) == 0) {
        fprintf(file, "RDMA: %s\n\n", text_of(rdma, "reason"));
        return;
    }
    if (asked[0] != '\0')
        fprintf(file, "RDMA ports, WRING_VERBS_DEVICES=%s:\n", asked);
    else
        fprintf(file, "RDMA ports, and which of them verbs would use (WRING_VERBS_DEVICES):\n");
    if (text_of(rdma, "unmatched")[0] != '\0')
        fprintf(file, "  there is no %s\n", text_of(rdma, "unmatched"));
    show_ports(file, ports);
    show_gids(file, ports);
    show_abilities(file, ports);
    fputc('\n', file);
}
