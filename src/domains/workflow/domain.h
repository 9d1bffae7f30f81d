// What a search over workflows knows of the environment it searches on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "flotilla/domains/workflow/orders.h"

namespace flotilla::workflow {

struct Domain {
  std::string env;                 // its name in the registry
  std::string recipe;              // that training starts from
  std::string key;                 // of the environment, which takes the digits of an order
  std::string separator;           // between them
  std::vector<std::string> types;  // names of what is ordered

  // Metrics of an episode: what the search maximises, how far the episode kept to the order, and
  // how many things it did that had to keep to it.
  std::string value, compliance, acts;

  // What each order is worth to one who keeps to it, in the order of Orders(types.size()). Empty:
  // there is no closed form.
  std::function<std::vector<double>()> closed_form;
};

// "01234", as the environment's key takes it.
inline std::string key_text(const Domain& domain, const Order& order) {
  std::string text;
  for (const int type : order) {
    if (!text.empty()) text += domain.separator;
    text += std::to_string(type);
  }
  return text;
}

// "defender → enterprise → ...", for people.
inline std::string title(const Domain& domain, const Order& order) {
  std::string text;
  for (const int type : order) {
    if (!text.empty()) text += " \u2192 ";
    text += domain.types[static_cast<size_t>(type)];
  }
  return text;
}

}  // namespace flotilla::workflow
