#include "support/test_envs.h"

namespace flotilla::test {

void register_test_envs(Registry& registry) {
  registry.add(env_type<Stripes>("test_stripes", "asks which way stripes run"));
  registry.add(env_type<Script>("test_script", "does what its action says"));
  registry.add(env_type<Advised>("test_advised", "has a mask and advice"));
  registry.add(env_type<Once>("test_once", "does it once"));
  registry.add(env_type<Broken>("test_broken", "breaks one rule"));
}

}  // namespace flotilla::test
