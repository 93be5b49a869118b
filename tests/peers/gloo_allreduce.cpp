/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Times Gloo's allreduce over its TCP device: the ring that PyTorch uses, its bcube, or
 * halving-doubling.
 *
 *     gloo_allreduce RANK RANKS FOLDER ADDRESS ring|bcube|halving [-o] [-l] SECONDS BYTES...
 *
 * Each rank is started by itself. They meet in FOLDER, which is empty and is there for this run
 * alone, and listen on ADDRESS. Halving-doubling knows only in place.
 */
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "tests/peers/peer_method.h"

namespace
{

using sum_function = void (*)(void *, const void *, const void *, size_t);
using options = gloo::AllreduceOptions;

struct library {
    std::shared_ptr<gloo::Context> context;
    std::string algorithm;
    /* ready for run: one of the two */
    std::unique_ptr<options> call;
    std::unique_ptr<gloo::AllreduceHalvingDoubling<float>> halving;
};

void prepare(void *arg, float *in, float *out, uint64_t elems)
{
    auto library = static_cast<struct library *>(arg);
    library->call.reset();
    library->halving.reset();
    if (out == nullptr)
        return;
    if (library->algorithm == "halving") {
        library->halving = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
            library->context, std::vector<float *>{out}, static_cast<int>(elems));
        return;
    }
    library->call = std::make_unique<options>(library->context);
    library->call->setAlgorithm(library->algorithm == "ring" ? options::Algorithm::RING
                                                             : options::Algorithm::BCUBE);
    library->call->setReduceFunction(static_cast<sum_function>(&gloo::sum<float>));
    if (in != out)
        library->call->setInput(in, elems);
    library->call->setOutput(out, elems);
}

void run(void *arg)
{
    auto library = static_cast<struct library *>(arg);
    if (library->halving)
        library->halving->run();
    else
        gloo::allreduce(*library->call);
}

void barrier(void *arg)
{
    gloo::BarrierOptions call(static_cast<library *>(arg)->context);
    gloo::barrier(call);
}

void max(void *arg, double *values, int n)
{
    options call(static_cast<library *>(arg)->context);
    call.setReduceFunction(static_cast<sum_function>(&gloo::max<double>));
    call.setOutput(values, static_cast<size_t>(n));
    gloo::allreduce(call);
}

/** Meet the other ranks. @return what all of them can then call */
std::shared_ptr<gloo::Context> join(int rank, int ranks, const char *folder, const char *address)
{
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    gloo::rendezvous::FileStore store(folder);
    gloo::transport::tcp::attr attributes(address);
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    context->connectFullMesh(store, device);
    return context;
}

const struct peer_ops ops = {prepare, run, barrier, max};

} // namespace

int main(int argc, char **argv)
{
    if (argc < 6) {
        std::fprintf(stderr,
                     "needs: RANK RANKS FOLDER ADDRESS ALGORITHM [-o] [-l] SECONDS BYTES...\n");
        return 2;
    }
    struct library library = {nullptr, argv[5], nullptr, nullptr};
    struct peer peer = {&ops, &library, std::atoi(argv[1]), std::atoi(argv[2])};
    if (library.algorithm == "halving" && argc > 6 && std::string(argv[6]) == "-o") {
        std::fprintf(stderr, "halving-doubling works in place only\n");
        return 2;
    }
    try {
        library.context = join(peer.rank, peer.ranks, argv[3], argv[4]);
        return peer_measure(&peer, argc - 6, argv + 6);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "Gloo: %s\n", error.what());
        return 1;
    }
}
