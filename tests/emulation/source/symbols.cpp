// SPDX-License-Identifier: Apache-2.0
// Names of kernels and their static shared arrays, from the symbol tables of the modules (which the
// loader does not read: kernels are hidden).
#include "source/symbols.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <unordered_map>

namespace emulated {
namespace {

struct symbol {
    std::string name;
    size_t bytes;
    bool function, zeros;  // in memory that starts as zeros and can be written
};

// By the distance from the module's start.
using symbol_table = std::map<uintptr_t, symbol>;

symbol_table read_symbols(const char* path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> all((std::istreambuf_iterator<char>(file)),
                                std::istreambuf_iterator<char>());
    symbol_table table;
    if (all.size() < sizeof(Elf64_Ehdr)) return table;
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(all.data());
    const auto* sections = reinterpret_cast<const Elf64_Shdr*>(all.data() + header->e_shoff);
    for (int i = 0; i < header->e_shnum; ++i) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        const auto* symbols =
            reinterpret_cast<const Elf64_Sym*>(all.data() + sections[i].sh_offset);
        const char* names = all.data() + sections[sections[i].sh_link].sh_offset;
        for (size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s) {
            const Elf64_Sym& of = symbols[s];
            const auto type = ELF64_ST_TYPE(of.st_info);
            if ((type != STT_FUNC && type != STT_OBJECT) || of.st_shndx == SHN_UNDEF ||
                of.st_shndx >= header->e_shnum) {
                continue;
            }
            table[of.st_value] = {names + of.st_name, of.st_size, type == STT_FUNC,
                                  sections[of.st_shndx].sh_type == SHT_NOBITS};
        }
    }
    return table;
}

const symbol_table& symbols_of(const Dl_info& module) {
    static auto& tables = *new std::unordered_map<const void*, symbol_table>;
    const auto found = tables.find(module.dli_fbase);
    if (found != tables.end()) return found->second;
    return tables[module.dli_fbase] = read_symbols(module.dli_fname);
}

kernel_symbols find_symbols(const void* function) {
    kernel_symbols result{"?", {}};
    Dl_info module{};
    if (!dladdr(function, &module)) return result;
    const auto base = reinterpret_cast<uintptr_t>(module.dli_fbase);
    const symbol_table& table = symbols_of(module);
    const auto found = table.find(reinterpret_cast<uintptr_t>(function) - base);
    if (found == table.end()) return result;
    const std::string& mangled = found->second.name;
    int status = 0;
    char* name = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
    result.name = name ? name : mangled;
    std::free(name);
    // "_Zkernel" has local variables "_ZZkernelE...".
    const std::string locals = "_ZZ" + mangled.substr(std::min<size_t>(2, mangled.size())) + "E";
    for (const auto& [address, of] : table)
        if (of.zeros && !of.function && of.name.compare(0, locals.size(), locals) == 0)
            result.shared.push_back({reinterpret_cast<void*>(base + address), of.bytes});
    return result;
}

}  // namespace

const kernel_symbols& symbols_of(const void* kernel) {
    static auto& known = *new std::unordered_map<const void*, kernel_symbols>;
    const auto found = known.find(kernel);
    return found != known.end() ? found->second : known[kernel] = find_symbols(kernel);
}

}  // namespace emulated
