#include "flotilla/domains/cage2/workflow.h"

#include "flotilla/domains/cage2/compliance.h"

namespace flotilla::cage2 {

const workflow::Domain& workflow_domain() {
  static const workflow::Domain domain{.env = "cage2",
                                       .recipe = "cage2-workflow",
                                       .key = "workflow",
                                       .separator = "",
                                       .types = {kUnitNames.begin(), kUnitNames.end()},
                                       .value = "reward",
                                       .compliance = "compliance",
                                       .acts = "fixes",
                                       .closed_form = {}};
  return domain;
}

}  // namespace flotilla::cage2
