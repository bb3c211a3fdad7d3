// Stands in for the headers that MSCCL++'s parser includes and does not need: those of GPUs.
#pragma once
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mscclpp/errors.hpp>
#include <string>
#include <vector>
using cudaStream_t = void*;
namespace mscclpp {
enum class Transport { CudaIpc };
enum class DataType { UINT8 };
using MemoryId = unsigned;
class Communicator;
template <class T> using DeviceHandle = typename T::DeviceHandle;
struct Handle { struct DeviceHandle { char room[64]; }; };
struct BaseMemoryChannel : Handle {};
struct BasePortChannel : Handle {};
struct SwitchChannel : Handle {};
}
