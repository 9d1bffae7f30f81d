#include "flotilla/domains/cage2/defender.h"

#include "flotilla/core/error.h"
#include "flotilla/domains/cage2/cage2_env.h"

namespace flotilla::cage2 {
namespace {

Config config_of(const PolicyFile& file, const EnvType& type) {
  Config config(type.schema);
  try {
    config.load_yaml_text(file.origin.env_config, file.tensors.origin);
  } catch (const Error& error) {  // of another version of the environment
    throw Error(ErrorCode::kData, error.what());
  }
  return config;
}

}  // namespace

Defender defender_of(const PolicyFile& file) {
  if (file.origin.env != "cage2") {
    throw Error(ErrorCode::kUsage,
                file.tensors.origin + ": is a policy of '" + file.origin.env + "', not of cage2");
  }
  EnvType type = env_type<Cage2>("cage2", "");
  Config config = config_of(file, type);
  const EnvSpec spec = type.spec(config, file.origin.time_limit);
  return {std::move(type), std::move(config), make_policy(file, spec, {}), spec.time_limit};
}

}  // namespace flotilla::cage2
