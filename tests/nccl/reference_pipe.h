/* SPDX-License-Identifier: Apache-2.0 */
/** A nonblocking connection of the reference plugin, over which frames travel both ways. */
#ifndef WRING_TESTS_NCCL_REFERENCE_PIPE_H
#define WRING_TESTS_NCCL_REFERENCE_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reference_frame {
    uint32_t kind, tag;
    uint64_t sequence, bytes;
};

struct reference_piece;

struct reference_pipe {
    int fd; /* -1: none */
    bool broken;
    struct reference_piece *out, **out_end; /* what is still to be written */
    size_t out_done;                        /* bytes of its first */
    struct reference_frame in;
    unsigned char *in_data;
    size_t in_done; /* bytes of frame and data */
};

void reference_pipe_init(struct reference_pipe *pipe, int fd);
void reference_pipe_finish(struct reference_pipe *pipe);

/** Queue a frame. @param data  [frame->bytes]; borrowed until it is written, or copied */
void reference_pipe_send(struct reference_pipe *pipe, const struct reference_frame *frame,
                         const void *data, bool copy);

/** Write what can be written. Sets `broken`. */
void reference_pipe_write(struct reference_pipe *pipe);

/** The next frame that has come whole. @param data  out, [frame->bytes], for the caller to free
 *  @return false where none has */
bool reference_pipe_read(struct reference_pipe *pipe, struct reference_frame *frame,
                         unsigned char **data);

/** A socket that listens on loopback. @return it, or -1 */
int reference_listen(uint16_t *port);

/** Begin to connect. @return the socket, or -1 */
int reference_dial(uint16_t port);

/** @return 1 when it is connected, 0 not yet, -1 when it never will be */
int reference_dialled(int fd);

#endif
