/* SPDX-License-Identifier: Apache-2.0 */
/** This process on the network: its devices, and the ports that the network knows them by. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/provider/mock/mock_inside.h"

struct mock_process mock_self;
static pthread_mutex_t setting_up = PTHREAD_MUTEX_INITIALIZER;

static void set_speed(struct net_port *port, unsigned gbit)
{
    static const struct {
        unsigned gbit;
        uint8_t width, speed; /* lanes and their speed, as port attributes have them */
    } speeds[] = {{10, 2, 1},   {25, 1, 32},  {40, 2, 4},   {50, 1, 64},
                  {100, 2, 32}, {200, 2, 64}, {400, 2, 128}};
    port->width = 2;
    port->speed = 32;
    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
        if (speeds[i].gbit == gbit) {
            port->width = speeds[i].width;
            port->speed = speeds[i].speed;
        }
}

/** Index 0 is link-local or the subnet's, 1 is 10.host.device.port over RoCEv2. */
static void set_gids(struct net_port *port, unsigned host, unsigned device, unsigned number)
{
    memset(port->gids, 0, sizeof(port->gids));
    uint8_t *local = port->gids[0].raw, *v4 = port->gids[1].raw;
    local[0] = 0xfe;
    local[1] = 0x80;
    local[8] = 2; /* a made-up address, administered locally */
    local[13] = (uint8_t)host;
    local[14] = (uint8_t)device;
    local[15] = (uint8_t)number;
    if (port->link_layer == IBV_LINK_LAYER_INFINIBAND)
        return;
    v4[10] = v4[11] = 0xff;
    v4[12] = 10;
    memcpy(v4 + 13, local + 13, 3);
}

static void set_port(struct net *net, const struct mock_options *options, unsigned device,
                     unsigned number)
{
    uint32_t at = options->host * MOCK_DEVICES + device;
    struct net_port *port = &net->ports[at][number - 1];
    if (port->there)
        return;
    *port = (struct net_port){
        .there = true,
        .state = IBV_PORT_ACTIVE,
        .link_layer = (uint8_t)options->device[device].link_layer,
        .lid = (uint16_t)(1 + at * MOCK_PORTS + number),
        .pkeys = {0xffff, 0x8001},
    };
    for (unsigned bytes = 256; bytes <= options->device[device].mtu; bytes *= 2)
        port->mtu = (enum ibv_mtu)(__builtin_ctz(bytes) - 7);
    set_speed(port, options->device[device].speed);
    set_gids(port, options->host, device, number);
}

static void set_up_devices(struct mock_process *self)
{
    const struct mock_options *options = &self->options;
    net_lock(self->net);
    net_reap(self->net);
    for (unsigned d = 0; d < options->devices; d++) {
        struct mock_device *device = &self->devices[d];
        device->index = d;
        device->number = options->host * MOCK_DEVICES + d;
        device->base.node_type = IBV_NODE_CA;
        device->base.transport_type = IBV_TRANSPORT_IB;
        snprintf(device->base.name, sizeof(device->base.name), "mock%u", d);
        snprintf(device->base.dev_name, sizeof(device->base.dev_name), "mock%u", d);
        for (unsigned p = 1; p <= options->ports; p++)
            set_port(self->net, options, d, p);
    }
    net_unlock(self->net);
}

static bool set_up(struct mock_process *self)
{
    const char *text = getenv("MOCKVERBS");
    if (!mock_options_read(text != NULL ? text : "", &self->options)) {
        errno = EINVAL;
        return false;
    }
    self->net = net_attach(self->options.net);
    if (self->net == NULL) {
        fprintf(stderr, "mock verbs: no network at '%s': %s\n", self->options.net, strerror(errno));
        return false;
    }
    set_up_devices(self);
    return true;
}

struct mock_process *mock_process(void)
{
    pthread_mutex_lock(&setting_up);
    bool good = mock_self.net != NULL || set_up(&mock_self);
    pthread_mutex_unlock(&setting_up);
    return good ? &mock_self : NULL;
}

__attribute__((destructor)) static void leave(void)
{
    mock_clock_stop();
    if (mock_self.net != NULL)
        net_detach(mock_self.net);
    mock_self.net = NULL;
}

bool mock_call_fails(const char *name)
{
    net_lock(mock_self.net);
    bool fails = strcmp(mock_self.fail_call, name) == 0 && mock_self.fail_after-- == 0;
    if (fails)
        mock_self.fail_call[0] = '\0';
    int error = mock_self.fail_error;
    net_unlock(mock_self.net);
    if (fails)
        errno = error;
    return fails;
}

void mock_misuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("mock verbs: misuse: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    __atomic_fetch_add(&mock_self.counts.misuse, 1, __ATOMIC_RELAXED);
}

struct net_port *mock_port(uint32_t device, unsigned number)
{
    if (number < 1 || number > MOCK_PORTS)
        return NULL;
    struct net_port *port = &mock_self.net->ports[device][number - 1];
    return port->there ? port : NULL;
}
