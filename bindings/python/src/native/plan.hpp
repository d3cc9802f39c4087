// SPDX-License-Identifier: Apache-2.0
// One class template for the plans of every operation; plans.cpp holds an Operation struct for
// each.
//
// An Operation names the ABI's types (Problem, Plan) and functions and reads its problem from a
// dict. The problem's A, K or pattern is a descriptor that the Python layer keeps alive during the
// call.
#ifndef MAGICUBE_PYTHON_PLAN_HPP
#define MAGICUBE_PYTHON_PLAN_HPP

#include <map>
#include <memory>
#include <vector>

#include "matrices.hpp"

namespace magicube_python {

// The descriptor of an operation's sparse operand.
template <class Operation>
struct SparseOf {
    using Type = SpMat;
};

// A problem struct together with the string that it points to.
template <class Operation>
class ProblemOf {
  public:
    ProblemOf(const typename SparseOf<Operation>::Type& sparse, const py::dict& entries,
              const std::optional<std::string>& implementation)
        : implementation_(implementation) {
        Operation::set_sparse(problem_, sparse.get());
        if (implementation_) problem_.implementation = implementation_->c_str();
        Fields fields(entries);
        Operation::read(fields, problem_);
        fields.finish();
    }
    ProblemOf(const ProblemOf&) = delete;
    ProblemOf& operator=(const ProblemOf&) = delete;
    const typename Operation::Problem* get() const { return &problem_; }

  private:
    std::optional<std::string> implementation_;
    typename Operation::Problem problem_ = Operation::initial();
};

// Scratch of executions that run one after another.
struct Scratch {
    std::mutex mutex;  // held while an execution is submitted
    std::unique_ptr<Memory> memory;
};

// A plan and scratch for its executions: on the CPU as many as executions ever ran at once, on CUDA
// one a stream, which the stream's order protects. All of it lives as long as the plan, so that
// captured graphs may refer to it.
template <class Operation>
class Plan {
  public:
    Plan(Handle& handle, const ProblemOf<Operation>& problem) {
        magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
        handle.call(Operation::buffer_size, problem.get(), &sizes);
        workspace_bytes_ = sizes.workspace_bytes;
        handle.call(Operation::create, problem.get(), static_cast<void*>(nullptr), std::size_t{0},
                    plan_.out());
    }
    ~Plan() {
        py::gil_scoped_release release;
        idle_.clear();
        by_stream_.clear();
    }
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;

    py::tuple info() const {
        magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
        call(Operation::info, plan_.get(), &info);
        return py::make_tuple(std::string(info.implementation),
                              std::string(info.reasons != nullptr ? info.reasons : ""),
                              info.plan_bytes, info.workspace_bytes);
    }

    // Calls function(handle, plan, arguments..., workspace, bytes); given is the caller's workspace
    // of this plan's size, or 0.
    template <class Function, class... Arguments>
    void execute(Handle& handle, std::uintptr_t given, Function function, Arguments... arguments) {
        py::gil_scoped_release release;
        if (given != 0 || workspace_bytes_ == 0) {
            handle.call_released(function, plan_.get(), arguments..., pointer(given),
                                 workspace_bytes_);
            return;
        }
        const std::shared_ptr<Scratch> scratch = take_scratch(handle);
        {
            const std::lock_guard<std::mutex> lock(scratch->mutex);
            if (!scratch->memory)
                scratch->memory = std::make_unique<Memory>(handle, workspace_bytes_);
            handle.call_released(function, plan_.get(), arguments..., scratch->memory->data(),
                                 workspace_bytes_);
        }
        if (!handle.on_cuda()) {
            const std::lock_guard<std::mutex> lock(mutex_);
            idle_.push_back(scratch);
        }
    }

    typename Operation::Plan get() const { return plan_.get(); }
    std::size_t workspace_bytes() const { return workspace_bytes_; }

  private:
    std::shared_ptr<Scratch> take_scratch(const Handle& handle) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (handle.on_cuda()) {
            auto& scratch = by_stream_[handle.stream()];
            if (!scratch) scratch = std::make_shared<Scratch>();
            return scratch;
        }
        if (idle_.empty()) return std::make_shared<Scratch>();
        auto scratch = std::move(idle_.back());
        idle_.pop_back();
        return scratch;
    }

    Owner<typename Operation::Plan, Operation::destroy_plan> plan_;
    std::size_t workspace_bytes_ = 0;
    std::mutex mutex_;
    std::vector<std::shared_ptr<Scratch>> idle_;
    std::map<std::uintptr_t, std::shared_ptr<Scratch>> by_stream_;
};

template <class Operation>
std::vector<std::string> list_implementations(int32_t device) {
    const auto kind = static_cast<magicubeDevice_t>(device);
    int32_t count = 0;
    call(Operation::list, kind, static_cast<const char**>(nullptr), 0, &count);
    std::vector<const char*> names(static_cast<std::size_t>(count));
    call(Operation::list, kind, names.data(), count, &count);
    return {names.begin(), names.end()};
}

// Binds what all plans have in common and returns the class for the rest.
template <class Operation>
auto bind_plan(py::module_& module, const char* name) {
    using Type = Plan<Operation>;
    using Problem = ProblemOf<Operation>;
    using Sparse = typename SparseOf<Operation>::Type;
    py::class_<Type, std::shared_ptr<Type>> type(module, name);
    type.def(py::init([](Handle& handle, const Sparse& sparse, const py::dict& entries,
                         const std::optional<std::string>& implementation) {
            return std::make_shared<Type>(handle, Problem(sparse, entries, implementation));
        }))
        .def("info", &Type::info)
        .def_property_readonly("workspace_bytes", &Type::workspace_bytes)
        .def_static("check_supported",
                    [](Handle& handle, const Sparse& sparse, const py::dict& entries,
                       const std::optional<std::string>& implementation) {
                        const Problem problem(sparse, entries, implementation);
                        handle.call(Operation::is_supported, problem.get());
                    })
        .def_static("implementations", &list_implementations<Operation>);
    return type;
}

}  // namespace magicube_python

#endif
