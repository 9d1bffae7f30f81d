#include "flotilla/train/orders.h"

#include "flotilla/core/serial.h"

namespace flotilla {

void give_order(Collective& collective, const OrderSheet& sheet) {
  if (collective.size() == 1) return;
  Writer writer;
  writer.u64("order", static_cast<uint64_t>(sheet.order));
  writer.f64("fraction", sheet.fraction);
  writer.text("config", sheet.config);
  writer.u64("phase", static_cast<uint64_t>(sheet.phase));
  writer.text("implementation", sheet.implementation);
  writer.text("model", sheet.model);
  writer.text("optimizer", sheet.optimizer);
  writer.text("state", sheet.state);
  broadcast_bytes(collective, writer.buffer());
}

void order_start(const RunConfig& run, const std::string& implementation, int phase) {
  const bool exact = run.cluster.sum == BlockSum::kExact;
  give_order(*run.cluster.collective, {.order = Order::kStart,
                                       .config = run.config.to_yaml(),
                                       .phase = phase,
                                       .implementation = exact ? implementation : ""});
}

OrderSheet take_order(Collective& collective) {
  const std::vector<std::byte> bytes = broadcast_bytes(collective, {});
  Reader reader(bytes, "what rank 0 says");
  OrderSheet sheet;
  sheet.order = static_cast<Order>(reader.u64("order"));
  sheet.fraction = reader.f64("fraction");
  sheet.config = reader.text("config");
  sheet.phase = static_cast<int>(reader.u64("phase"));
  sheet.implementation = reader.text("implementation");
  sheet.model = reader.text("model");
  sheet.optimizer = reader.text("optimizer");
  sheet.state = reader.text("state");
  return sheet;
}

}  // namespace flotilla
