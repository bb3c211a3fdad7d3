// parser PLAN: reads "input output" in bytes of each rank on standard input, loads the plan as
// MSCCL++ does, and prints the operations of each thread block: name's number, channels,
// pieces as buffer@offset+bytes, and semaphores.
#define private public
#include <mscclpp/executor.hpp>
#undef private
#include <iostream>

#include "execution_plan.hpp"

using namespace mscclpp;

BaseError::BaseError(const std::string& m, int c) : std::runtime_error(m), message_(m), errorCode_(c) {}
const char* BaseError::what() const noexcept { return message_.c_str(); }
Error::Error(const std::string& m, ErrorCode c) : BaseError(m, static_cast<int>(c)) {}

int main(int, char** argv) {
	size_t in, out;
	for (int rank = 0; std::cin >> in >> out; rank++) {
		ExecutionPlan::Impl p(argv[1], rank);
		p.loadExecutionPlan(in, out, 0, 0);
		for (auto kind : {ChannelType::MEMORY, ChannelType::PORT})
			if (!p.getUnpairedChannelInfos(1 << 12, kind).empty()) throw std::runtime_error("a channel has one end");
		std::cout << "rank " << rank << " scratch " << p.calScratchBufferSize(in, out) << "\n";
		for (int b = 0; b < p.getThreadblockCount(); b++) {
			auto ops = p.getOperations(b);
			if (ops.size() > MAX_OPERATION) throw std::runtime_error("too many operations");
			if (p.threadblockMemoryChannels[b].size() > MAX_CHANNEL || p.threadblockPortChannels[b].size() > MAX_CHANNEL) throw std::runtime_error("too many channels");
			if (p.threadblockMemoryChannelBuffers[b].size() > MAX_CHANNEL || p.threadblockPortChannelBuffers[b].size() > MAX_CHANNEL) throw std::runtime_error("too many buffers");
			for (auto& o : ops) {
				std::cout << b << " " << int(o.type);
				if (o.type == OperationType::SEM_ACQUIRE || o.type == OperationType::SEM_RELEASE) {
					for (unsigned i = 0; i < o.nDeviceSemaphores; i++) std::cout << " " << o.deviceSemaphoreIds[i];
				} else {
					for (int i = 0; i < o.nChannels; i++) std::cout << " " << int(o.channelIndexes[i]);
					for (int i = 0; i < o.nInputs; i++) std::cout << " " << int(o.inputBufferRefs[i].id) << "@" << o.inputOffsets[i] << "+" << o.inputBufferSizes[i];
					for (int i = 0; i < o.nOutputs; i++) std::cout << " " << int(o.outputBufferRefs[i].id) << "@" << o.outputOffsets[i] << "+" << o.outputBufferSizes[i];
				}
				std::cout << "\n";
			}
		}
	}
}
