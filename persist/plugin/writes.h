// Finds the writes of an instruction.
#ifndef P3L_WRITES_H
#define P3L_WRITES_H

#include <optional>

#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "p3l_plugin.h"

namespace p3l {

struct Write {
  enum Length {
    Constant,  // `bytes`
    Given,     // by the value `length`
    Product,   // length x factor
    String,    // of the string at `length`, with its end
    Appended,  // after the string at the address, the string at `length`
  };
  llvm::Instruction *before;  // which the mark comes
  llvm::Value *address;
  Length kind = Constant;
  uint64_t bytes = 0;
  llvm::Align alignment{1};
  llvm::Value *length = nullptr, *factor = nullptr;
};

// Adds the writes of `instruction` that may reach persistent memory. Writes of vectors with a mask
// or to scattered addresses are split into their elements, which changes the function.
void findWrites(llvm::Instruction &instruction, const llvm::TargetLibraryInfo &library,
                llvm::SmallVectorImpl<Write> &writes);

// Whether a transaction may begin or end, or persistent memory may move, while it is executed.
bool endsMarks(const llvm::Instruction &instruction);

}  // namespace p3l

#endif
