// C++: errors as exceptions, plans that free themselves, and a table of the types.
#include <onnx_cast.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

void check(int status) {
    if (status != ONNX_CAST_OK) throw std::runtime_error(onnx_cast_last_error());
}

struct Free {
    void operator()(onnx_cast_plan *plan) const { onnx_cast_plan_free(plan); }
};
using Plan = std::unique_ptr<onnx_cast_plan, Free>;

Plan plan_cast(std::int32_t from, std::int32_t to) {
    onnx_cast_plan *plan = nullptr;
    check(onnx_cast_plan_cast(from, to, nullptr, &plan));
    return Plan(plan);
}

std::vector<std::uint8_t> run(const Plan &plan, const std::vector<float> &numbers, std::int32_t to) {
    std::size_t bytes = 0;
    check(onnx_cast_byte_size(to, numbers.size(), &bytes));
    std::vector<std::uint8_t> result(bytes);
    check(onnx_cast_plan_run(plan.get(), numbers.data(), numbers.size(), result.data(), result.size()));
    return result;
}

}  // namespace

int main() {
    const std::vector<float> numbers{0.5f, 1.0f, 3.0f, 6.0f, 28.0f};
    for (std::int32_t type = 1; onnx_cast_type_name(type) != nullptr; type++) {
        onnx_cast_type_facts facts = ONNX_CAST_TYPE_FACTS_INIT;
        check(onnx_cast_type_get_facts(type, &facts));
        if (facts.kind != ONNX_CAST_KIND_FLOAT || facts.bits > 8) continue;
        std::cout << facts.name << ", " << facts.bits << " bits:";
        for (unsigned byte : run(plan_cast(ONNX_CAST_FLOAT, type), numbers, type)) std::cout << ' ' << byte;
        std::cout << '\n';
    }
    try {
        plan_cast(ONNX_CAST_FLOAT, ONNX_CAST_COMPLEX64);
    } catch (const std::runtime_error &error) {
        std::cout << error.what() << '\n';
        return 0;
    }
    return 1;
}
