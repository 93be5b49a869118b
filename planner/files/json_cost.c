/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/json_cost.h"

#include "planner/files/json_writer.h"

#define X_MAX 0x1p53
#define Y_MAX 1e15
#define SLOPE_MAX 1e9

/** One [x, y], not left of the corner before and not below it. */
static void read_corner(struct wring_reading *reading, const json_t *value, struct wring_cost *out)
{
    uint32_t i = out->n;
    char is[100];

    if (json_array_size(value) != 2) {
        wring_reading_fault(reading, WRING_ERR_INVALID, "needs [x, y], %s",
                            json_is_array(value) ? "is a list of another length"
                                                 : wring_reading_describe(value, is, sizeof(is)));
        return;
    }
    double x = wring_reading_value_number(reading, json_array_get(value, 0), 0, X_MAX) + 0.0;
    double y = wring_reading_value_number(reading, json_array_get(value, 1), 0, Y_MAX) + 0.0;
    if (i > 0 && x <= out->corners[i - 1].x)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "x = %.15g does not lie beyond the %.15g of the corner before it", x,
                            out->corners[i - 1].x);
    if (i > 0 && y < out->corners[i - 1].y)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "y = %.15g is below the %.15g of the corner before it; costs never "
                            "fall",
                            y, out->corners[i - 1].y);
    out->corners[i].x = x;
    out->corners[i].y = y;
    out->n++;
}

struct wring_cost wring_reading_cost(struct wring_reading *reading, const json_t *object,
                                     const char *name)
{
    struct wring_cost cost = {0};
    const json_t *value = wring_reading_object(reading, object, name);

    wring_reading_enter(reading, name);
    const json_t *corners = wring_reading_array(reading, value, "corners", 0, WRING_COST_CORNERS);
    cost.slope = wring_reading_number(reading, value, "slope", 0, SLOPE_MAX) + 0.0;
    wring_reading_enter(reading, "corners");
    for (size_t i = 0; i < json_array_size(corners) && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        read_corner(reading, json_array_get(corners, i), &cost);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
    wring_reading_leave(reading);
    return cost;
}

json_t *wring_json_cost(const struct wring_cost *cost)
{
    json_t *corners = json_array();

    for (uint32_t i = 0; i < cost->n; i++)
        if (json_array_append_new(corners,
                                  json_pack("[o, o]", wring_json_number(cost->corners[i].x),
                                            wring_json_number(cost->corners[i].y))) != 0) {
            json_decref(corners);
            return NULL;
        }
    return json_pack("{s:o, s:o}", "corners", corners, "slope", wring_json_number(cost->slope));
}
