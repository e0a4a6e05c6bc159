#pragma once
// What config.json and hf_quant_config.json say of quantised weights, in the words of each producer.

#include <string>
#include <string_view>

#include "checkpoint/config.h"
#include "checkpoint/config_fields.h"

namespace qwell {

// The object quantization_config. Error for a method, an algorithm or a block size that is none of the known ones, letter by letter.
QuantConfig parse_quant_config(const ConfigFields& fields);

QuantConfig parse_hf_quant_config(std::string_view json_text, const std::string& file);

}  // namespace qwell
